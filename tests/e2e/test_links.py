"""The links of README.rst and CONTRIBUTING.rst, and that links.py finds what is wrong in a site."""
import pytest
from harness import SOURCE, run
from links import Site, check_rst

PAGE = """<html><head><link rel="stylesheet" href="_static/a.css"><link rel="next" href="other.html">
<style>body { background: url(_static/p.png) }</style><script src="_static/a.js?v=1"></script></head>
<body id="top"><a href="other.html#there">x</a><a href="#top">x</a><a href="https://example.org/a?b#c">x</a>
<a href="mailto:a@example.org">x</a><img src="data:image/png;base64,AA==" srcset="_static/p.png 2x"></body></html>"""


@pytest.fixture(name="site")
def fixture_site(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.css").write_text("/* url(http://x.org) */ a { src: url('p.png') }")
    (tmp_path / "_static" / "a.js").write_text("// see https://example.org\nfetch('searchindex.js')")
    (tmp_path / "_static" / "p.png").write_bytes(b"x")
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1><a href="index.html">x</a>')
    return tmp_path


def test_pages_of_the_repository():
    for name in ("README.rst", "CONTRIBUTING.rst", "CHANGELOG.rst"):
        assert not check_rst(SOURCE / name)


def test_a_site_in_order(site):
    assert not Site(site).check()


@pytest.mark.parametrize("file, old, new, said", [
    ("index.html", "other.html#there", "other.html#gone", "index.html: other.html#gone: there is no such id"),
    ("index.html", '"#top"', '"#gone"', "no such id"),
    ("index.html", "other.html#there", "gone.html", "no such file"),
    ("index.html", "other.html#there", "../secret.html", "leads out of the site"),
    ("index.html", "https://example.org/a", "https://exa mple/a", "has blanks"),
    ("index.html", "https://example.org/a", "https:///a", "no host"),
    ("index.html", "https://example.org/a", "javascript:a", "unknown scheme"),
    ("index.html", "_static/a.js?v=1", "https://cdn.example.org/a.js", "from the network"),
    ("index.html", "_static/a.js?v=1", "//cdn.example.org/a.js", "from the network"),
    ("index.html", "_static/a.js?v=1", "_static/b.js", "no such file"),
    ("index.html", 'rel="stylesheet" href="_static/a.css', 'rel="preconnect" href="https://fonts.example.org', "from the network"),
    ("index.html", "url(_static/p.png)", "url(https://example.org/p.png)", "from the network"),
    ("index.html", "_static/p.png 2x", "https://example.org/p.png 2x", "from the network"),
    ("_static/a.css", "'p.png'", "'https://example.org/p.woff'", "from the network"),
    ("_static/a.css", "a {", "@import 'https://example.org/b.css'; a {", "from the network"),
    ("_static/a.css", "a {", "@import url(b.css); a {", "no such file"),
    ("_static/a.js", "'searchindex.js'", "'https://example.org/x.js'", "from the network")])
def test_what_is_wrong_is_said(site, file, old, new, said):
    text = (site / file).read_text()
    assert old in text
    (site / file).write_text(text.replace(old, new))
    problems = Site(site).check()
    assert len(problems) == 1 and said in problems[0], problems
    assert said in run(["python3", SOURCE / "tests/e2e/links.py", site], status=1).stderr


@pytest.mark.parametrize("text, said", [
    ("`a <gone.rst>`_", "no such file"), ("`Gone`_", "no such section"), ("`a <#gone>`_", "no such section"),
    (".. image:: gone.png", "no such file"), ("https://x", "no host"), ("`Title`_ `a <#title>`_ `b <page.rst>`_", None)])
def test_links_of_a_page(tmp_path, text, said):
    (tmp_path / "page.rst").write_text(f"Title\n=====\n\n{text}\n")
    problems = check_rst(tmp_path / "page.rst")
    assert said in problems[0] if said else not problems
