"""tools/release says what a release must not have: versions that differ, no entry of the changelog, an interface
that lost something, a trace format that no page describes; and modulefiles work wherever an installation lies."""
import os
import re
import shutil

import pytest

import harness
from harness import SOURCE

FILES = ["tools/release", "packaging", "include", "CHANGELOG.rst", "pyproject.toml", "docs/format.rst",
         "src/common/encode/own_lines.h"]
LMOD = "/usr/share/lmod/lmod/libexec/lmod"


def check(tree, status=0, words=("--candidate",)):
    return harness.run([tree / "tools/release", "--check", *words],
                       harness.clean_environment(BUILD=str(harness.BUILD)), status=status)


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    if not shutil.which("abidiff"):
        pytest.skip("no abidiff here")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
        copy(SOURCE / name, tmp_path / name)
    return tmp_path


def test_this_tree(tree):
    assert "nothing is wrong" in check(tree).stdout
    said = check(tree, 1, ()).stderr
    assert "(unreleased): give it the day" in said and "@pfw.example> is a placeholder" in said and "no HOMEPAGE" in said


def test_what_is_wrong_is_said(tree):
    """All of it at once: each message is of a file of its own."""
    for file, old, new in [("include/pfw/pfw.h", r'PFW_VERSION ".*"', 'PFW_VERSION "9.9.9"'),
                           ("src/common/encode/own_lines.h", r"PFW_TRACE_FORMAT \d+", "PFW_TRACE_FORMAT 77"),
                           ("packaging/abi/libpfw.so.1.abi", r"pfw_counter\b", "pfw_gone"),
                           ("packaging/abi/libpfwread.so.1.abi", r"(<type-decl name='int' size-in-bits=')32", r"\g<1>64")]:
        text = (tree / file).read_text()
        changed = re.sub(old, new, text)
        assert changed != text
        (tree / file).write_text(changed)
    said = check(tree, 1).stderr
    for words in ["PKGBUILD has version", "recipe.yaml has version", "package.py has version",
                  "debian/changelog has version", "CHANGELOG.rst begins with", "does not describe format 77",
                  "libpfw.so.1: not compatible", "libpfwread.so.1: not compatible"]:
        assert words in said, words


def test_modulefile(tmp_path):
    """Of an installation that was moved: the command and the libraries are found."""
    shell = shutil.which("modulecmd") or (LMOD if os.path.exists(LMOD) else None)
    if not shell:
        pytest.skip("neither Environment Modules nor Lmod here")
    harness.run(["cmake", "--install", harness.BUILD, "--prefix", tmp_path / "first"])
    prefix = (tmp_path / "first").rename(tmp_path / "moved")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MODULEPATH": str(prefix / "share/modulefiles")}
    done = harness.run(["sh", "-c", f'eval "$({shell} sh load pfw)"; command -v pfw; echo $LD_LIBRARY_PATH'], env)
    assert done.stdout == f"{prefix}/bin/pfw\n{prefix}/lib\n"
