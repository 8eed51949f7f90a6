"""Checks the links of a built site, or of pages in reStructuredText: links.py SITE.

Each link inside the site must lead to a file, and to an id in it. Nothing that a page loads (scripts, styles, fonts,
pictures) may come from the network. Links to other sites are not asked for, only read.
"""
import html.parser
import pathlib
import re
import sys
import urllib.parse

# What a browser loads by itself, and where the address is.
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "embed": "src", "object": "data",
          "audio": "src", "video": "src", "track": "src", "input": "src", "image": "href", "use": "href"}
# Of <link>: these are only said.
SAID = {"canonical", "next", "prev", "search", "index", "alternate", "author", "license", "help", "genindex", "top", "up"}
IN_STYLE = re.compile(r"""(?:@import\s+url\(|url\(|@import)\s*["']?([^"')\s;]+)""")
IN_SCRIPT = re.compile(r"""(?:\bfetch|\bimport|importScripts|\bimport)\s*\(\s*["'`]((?:https?:)?//[^"'`]*)|"""
                       r"""\.(?:src|href)\s*=\s*["'`]((?:https?:)?//[^"'`]*)""")
HOST = re.compile(r"localhost|127\.0\.0\.1|[a-z0-9-]+(\.[a-z0-9-]+)+", re.I)


class Page(html.parser.HTMLParser):
    """The ids, links and loaded addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded, self.style = set(), [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key == "id" and key in given or key == "name" and tag == "a" and key in given}
        self.style = tag == "style"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link":
            (self.links if set(given.get("rel", "").split()) <= SAID else self.loaded).append(given.get("href", ""))
        if given.get(LOADED.get(tag)):
            self.loaded.append(given[LOADED[tag]])
        self.loaded += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        self.loaded += [given["poster"]] if "poster" in given else []
        self.loaded += IN_STYLE.findall(given.get("style", ""))

    def handle_data(self, data):
        if self.style:
            self.loaded += IN_STYLE.findall(data)


def is_elsewhere(address):
    return bool(urllib.parse.urlsplit(address).scheme) or address.startswith("//")


def wrong_elsewhere(address):
    """Why a link to another site cannot be right, or None."""
    try:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname or ""
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https", "mailto"):
        return f"unknown scheme {parts.scheme!r}"
    if re.search(r"\s|[<>\"]", address):
        return "has blanks or brackets"
    return None if parts.scheme == "mailto" or HOST.fullmatch(host) else f"no host {host!r}"


class Site:
    """All pages of a directory."""

    def __init__(self, top):
        self.top = pathlib.Path(top).resolve()
        self.pages = {path: Page(path.read_text()) for path in sorted(self.top.rglob("*.html"))}
        self.problems = []

    def say(self, path, address, why):
        self.problems.append(f"{path.relative_to(self.top)}: {address}: {why}")

    def check_inside(self, path, address):
        parts = urllib.parse.urlsplit(address)
        file = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
        file = file / "index.html" if file.is_dir() else file
        fragment = urllib.parse.unquote(parts.fragment)
        if self.top not in file.parents:
            self.say(path, address, "leads out of the site")
        elif not file.is_file():
            self.say(path, address, "there is no such file")
        elif fragment and file in self.pages and fragment not in self.pages[file].ids:
            self.say(path, address, "there is no such id")

    def check_loaded(self, path, address):
        if urllib.parse.urlsplit(address).scheme == "data" or address.startswith("#"):
            return
        if is_elsewhere(address):
            self.say(path, address, "is loaded from the network")
        else:
            self.check_inside(path, address.split("#")[0])

    def check(self):
        for path, page in self.pages.items():
            for address in page.links:
                why = wrong_elsewhere(address) if is_elsewhere(address) else self.check_inside(path, address)
                if why:
                    self.say(path, address, why)
            for address in page.loaded:
                self.check_loaded(path, address)
        for path in self.top.rglob("*.css"):
            for address in IN_STYLE.findall(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)):
                self.check_loaded(path, address)
        for path in self.top.rglob("*.js"):
            for address in IN_SCRIPT.findall(path.read_text(errors="replace")):
                self.say(path, "".join(address), "is loaded from the network")
        return self.problems


def check_rst(path):
    """The links of a page that is read as it stands in the repository."""
    text, problems = path.read_text(), []
    lines = text.splitlines()
    titles = {line.lower() for line, rule in zip(lines, lines[1:]) if re.fullmatch(r"([-=~^])\1{2,}", rule)}
    names = titles | {name.strip("`").lower() for name in re.findall(r"^\.\. _([^:]+):", text, re.M)}
    anchors = {re.sub(r"[^a-z0-9]+", "-", title).strip("-") for title in titles}
    text = re.sub(r"``.*?``", "", text)
    addresses = re.findall(r"`[^`<]+<([^>`]+)>`__?", text) + re.findall(r"^\.\. (?:image|figure):: (\S+)", text, re.M)
    addresses += re.findall(r"^\.\. _[^:]+: (\S+)$", text, re.M) + re.findall(r"https?://[^\s>`)]*[^\s>`).,;:]", text)
    for address in addresses:
        file, _, fragment = address.partition("#")
        if is_elsewhere(address):
            why = wrong_elsewhere(address)
        elif file:
            why = None if (path.parent / file).exists() else "there is no such file"
        else:
            why = None if fragment in anchors else "there is no such section"
        problems += [f"{path.name}: {address}: {why}"] if why else []
    for name in re.findall(r"(?<![\w:`])`([^`<>]+)`_(?!_)", text):
        if " ".join(name.lower().split()) not in names:
            problems.append(f"{path.name}: `{name}`_: there is no such section")
    return problems


if __name__ == "__main__":
    site = Site(sys.argv[1])
    if not site.pages:
        sys.exit(f"{sys.argv[1]}: no pages")
    sys.exit("\n".join(site.check()) or 0)
