# test: fast
"""What README.md says about operators is what the compiler says."""

import harness
import readme_table

harness.need_weft()
harness.check("operators", readme_table.is_current(), "out of date: ./dev update-goldens")
