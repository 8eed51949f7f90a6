"""What Sphinx makes of these pages: sphinx-build docs build-docs (PFW_PYTHON=the directory of the package, PFW_BIN=the program, with their whole paths)."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

from docutils import nodes
from docutils.parsers import rst

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


# ---- the options of all commands, from the program ----

BUILT = pathlib.Path(__file__).resolve().parents[1] / "build/bin/pfw"


class CommandHelp(rst.Directive):
    """`.. pfw-help::` is a section for each command, with what `pfw COMMAND --help` prints."""

    def run(self):
        program = os.environ.get("PFW_BIN") or shutil.which("pfw") or str(BUILT)
        if not os.path.exists(program):
            return [self.state.document.reporter.warning("no pfw for the options: set PFW_BIN, or build it", line=self.lineno)]

        def asked(*words):
            return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout

        sections = []
        for command in re.findall(r"^  ([a-z]+) +\S", asked("--help"), re.M):
            section = nodes.section(ids=[f"pfw-{command}"], names=[f"pfw {command}"])
            section += nodes.title("", f"pfw {command}")
            section += nodes.literal_block("", asked(command, "--help").rstrip(), language="none")
            sections.append(section)
        return sections


NORMALIZE = "/javascript/normalize.css/normalize.css"


def bring_style(app, error):
    """Debian's furo has a part of its style on Debian's web server: put it into the site."""
    styles = pathlib.Path(app.outdir, "_static/styles")
    if error or not (styles / "furo.css").exists():
        return
    text = (styles / "furo.css").read_text()
    if f"url({NORMALIZE})" in text:
        shutil.copy("/usr/share" + NORMALIZE, styles)
        (styles / "furo.css").write_text(text.replace(f"url({NORMALIZE})", "url(normalize.css)"))


def setup(app):
    app.add_directive("pfw-help", CommandHelp)
    app.connect("build-finished", bring_style)
