"""What Sphinx makes of these pages: sphinx-build docs build-docs (PFW_PYTHON=where the package is)."""
import importlib.util
import os
import sys

sys.path.insert(0, os.environ.get("PFW_PYTHON", os.path.abspath("../bindings/python")))
os.environ["DFTRACER_ENABLE"] = "0"

project = "pfw"
root_doc = "index"
extensions = ["sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
exclude_patterns = ["_build"]
# furo has a search and a dark mode; Debian's package has it as well as the package index.
html_theme = "furo" if importlib.util.find_spec("furo") else "alabaster"
html_title = "pfw"
pygments_dark_style = "monokai"
html_copy_source = False
