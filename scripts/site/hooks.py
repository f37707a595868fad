"""Builds the site from the Markdown as it is in the repository.

docs/README.md is the index: its headings and lists are the navigation. A page outside of docs/ that it names is part of
the site under its own path. Links to other files of the repository become links to the repository at SITE_VERSION.
"""

import os
import posixpath
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

REPOSITORY = "https://github.com/idemsk/idemsk"
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
ENTRY = re.compile(r"- \[([^\]]+)\]\(([^)#]+)\)")
SELF = re.compile(r"\[([^\]]+)\]\(docs/README\.md\)")  # of the start page: the guide is the site
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"\s*```")
LIST = re.compile(r"( *)(- |\d+\. )")


def source(target):
    """The path in the site of a file of the repository. The README is the start page."""
    return "index.md" if target == "README.md" else target.removeprefix("docs/")


def index():
    """The navigation: [{"Start": [{"title": path}, …]}, …]."""
    nav = []
    with open(os.path.join(ROOT, "docs/README.md"), encoding="utf-8") as page:
        for line in page:
            if line.startswith("## "):
                nav.append({line[3:].strip(): []})
            elif entry := ENTRY.match(line):
                path = posixpath.normpath(posixpath.join("docs", entry[2]))
                next(iter(nav[-1].values())).append({entry[1]: source(path)})
    return nav


def on_config(config):
    config.nav = index()
    return config


def on_files(files, config):
    for section in config.nav:
        for entry in next(iter(section.values())):
            path = next(iter(entry.values()))
            if files.get_file_from_path(path) is None:
                outside = os.path.join(ROOT, "README.md" if path == "index.md" else path)
                if not os.path.isfile(outside):
                    raise PluginError(f"docs/README.md names {path}, which does not exist")
                files.append(File.generated(config, path, abs_src_path=outside))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    outside = page.file.generated_by is not None
    folder = posixpath.dirname(here if outside else "docs/" + here)  # in the repository; "" also of the start page
    lines, fenced, before = [], False, ""
    for line in markdown.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            line = SELF.sub(r"\1", line) if here == "index.md" else line
            line = LINK.sub(lambda m: m[1] + link(m[2], folder, here, files) + m[3], line)
            item = LIST.match(line)
            if item and len(item[1]) in (2, 3):  # GitHub's indentation of a list in a list
                line = "    " + line.lstrip()
            elif item and before and not LIST.match(before) and not before.startswith(" "):
                lines.append("")  # GitHub needs no empty line before a list or a table
            elif line.startswith("|") and before and not before.startswith("|"):
                lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines)


def link(target, folder, here, files):
    """A link as the page has it, from the page's place in the site."""
    if re.match(r"[a-z]+:|#", target):
        return target
    path, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(folder, path))
    page = files.get_file_from_path(source("README.md" if path == "docs/README.md" else path))
    if page is not None and not page.inclusion.is_excluded():
        return posixpath.relpath(page.src_uri, posixpath.dirname(here) or ".") + mark + anchor
    if not os.path.exists(os.path.join(ROOT, path)):
        return target  # a broken link, which mkdocs reports
    kind = "tree" if os.path.isdir(os.path.join(ROOT, path)) else "blob"
    return f"{REPOSITORY}/{kind}/{os.environ['SITE_VERSION']}/{path}{mark}{anchor}"
