# test: fast
"""README.md's table of operators equals the compiler's."""

import harness
import readme_table

harness.need_weft()
harness.check("operators", readme_table.is_current(), "out of date: ./dev update-goldens")
