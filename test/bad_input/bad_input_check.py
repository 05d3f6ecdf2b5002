# test: fast
"""Wrong models, schedules and flags: each is refused with its diagnostic and exit code (the format is that of case_files.py)."""

import case_files

case_files.run_cases("bad_input")
