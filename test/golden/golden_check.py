# test: fast
"""Emitted text and explanations of small models (the format is that of case_files.py)."""

import case_files

case_files.run_cases("golden")
