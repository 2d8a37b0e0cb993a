"""What MkDocs does beside its own: the pages of the repository join the site by their paths, links
between them work on the site as they do in the repository, and texts have their colours."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
HOME = "https://github.com/tensor-comprehensions/tc"
PAGES = (
    "CONTRIBUTING.md",
    "spec/*.md",
    "spec/sac/*.md",
    "examples/*.md",
    "examples/*.png",
    "bench/results/*.md",
)
OWN = "docs/pages"
"""The folder of the pages that are on the site alone."""

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\(|src=\")([^)\s\"]+)(?=[)\"])")
_RULES = re.compile(r"(?<!\])\(((?:[CTYNRGPD]\d{1,2})(?:, [CTYNRGPD]\d{1,2})*)\)")
_HERE = re.compile(rf"{re.escape(HOME)}/(?:blob|raw|tree)/main/")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """The files of the site: those of `docs/pages`, and pages of the repository by their paths."""
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            uri = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """A page with links of the site and named languages of its code."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]  # the tabs above lead on
    if re.match(r"bench/results/\w+-", page.file.src_uri):
        page.meta["hide"] = ["navigation", "toc"]  # room for wide tables
        page.meta["title"] = posixpath.basename(page.file.src_uri)
    markdown = re.sub(r"<!-- text of (\w+) -->", _example, markdown)
    parts = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts.append(_linked(markdown[end : fence.start()], page.file.src_uri, files))
        indent, language, code = fence.groups()
        parts.append(f"{indent}```{_language(language, code)}\n{_shown(code)}{indent}```")
        end = fence.end()
    parts.append(_linked(markdown[end:], page.file.src_uri, files))
    return "".join(parts)


def _example(place: re.Match[str]) -> str:
    """The text of a script in `examples/`, fenced."""
    code = (ROOT / "examples" / f"{place[1]}.py").read_text("utf-8")
    text = re.search(r'TEXT = """\n(.*?)"""', code, re.DOTALL)
    assert text is not None
    return f"```tc\n{text[1]}```"


def _linked(text: str, uri: str, files: Files) -> str:
    """Text whose links lead to pages of the site, and to the repository for all other files."""
    folder = posixpath.dirname(uri)
    source = posixpath.join(OWN, folder) if (ROOT / OWN / uri).exists() else folder

    def lead(link: re.Match[str]) -> str:
        start, target = link.groups()
        path, mark, anchor = target.partition("#")
        if _HERE.match(path):
            path = _HERE.sub("", path)
        elif "://" in path or not path or path.startswith("mailto:"):
            return link[0]
        else:
            path = posixpath.normpath(posixpath.join(source, path))
        path = path.removeprefix(f"{OWN}/")
        path = "index.md" if path == "README.md" else path
        if not (ROOT / path).exists() and files.get_file_from_path(path) is None:
            return link[0]  # MkDocs warns of the link
        if files.get_file_from_path(path) is None:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"{start}{HOME}/{kind}/main/{path}{mark}{anchor}"
        return f"{start}{posixpath.relpath(path, folder or '.')}{mark}{anchor}"

    return _LINK.sub(lead, _with_rules(text, folder))


def _with_rules(text: str, folder: str) -> str:
    """Prose in which the names of rules in parentheses, as (G7), are links to the rules."""
    page = posixpath.relpath("spec/rules.md", folder or ".")

    def linked(found: re.Match[str]) -> str:
        names = found[1].split(", ")
        return "(" + ", ".join(f"[{name}]({page}#{name})" for name in names) + ")"

    lines = text.split("\n")
    for number, line in enumerate(lines):
        if not line.startswith("#"):  # titles are addresses
            parts = line.split("`")
            parts[::2] = [_RULES.sub(linked, part) for part in parts[::2]]
            if line.startswith("|"):  # GitHub needs a backslash in code of tables
                parts[1::2] = [part.replace("\\|", "|") for part in parts[1::2]]
            lines[number] = "`".join(parts)
    return "\n".join(lines)


def _language(given: str, code: str) -> str:
    if given in ("", "python") and code.lstrip().startswith(">>> "):
        return "pycon-tc"
    if given == "python":
        return "python-tc"
    if given:
        return given
    if code.startswith("$ ") or "\n$ " in code:
        return "console"
    is_text = re.match(r"(?:#.*\n|\s)*def\s+\w+\s*\(.*->", code) is not None
    return "tc" if is_text else "text"


def _shown(code: str) -> str:
    """Code without what only doctests need."""
    return code.replace("<BLANKLINE>", "").rstrip("\n") + "\n"
