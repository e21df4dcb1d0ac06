"""Puts the pages of the documentation site together, for mkdocs to build: the project's own Markdown files under their
own paths, so that their links hold as they stand, and the generated reference. What a page links to comes along:
another page, a source file as a page that shows it, any other file as it is. A link that leads nowhere stays, and
mkdocs fails on it.
    pages.py PROJECT FOLDER [EINKORN XML]   FOLDER/mkdocs.yml and FOLDER/pages
EINKORN is the program, XML the folder with what Doxygen found in the headers; without them there is no reference."""
import pathlib
import re
import shutil
import sys

LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".py": "python", ".pyi": "python", ".sh": "bash",
             ".txt": "text", ".ek": "text", ".graph": "text", ".json": "json", ".cmake": "cmake", ".toml": "toml",
             "": "text"}
KINDS = {"run": "bash", "python": "python", "session": "console", "output": "text"}
LINK = re.compile(r"\]\(([^()\s]+)\)")


def language(path):
    """The language of a source file that is shown as a page; None: it is no text."""
    return "make" if path.name == "Makefile" else LANGUAGES.get(path.suffix)


def blocks(text):
    """Marked blocks (tests/docs.sh says how) get fences and a language; other lines stay. Yields (line, is code)."""
    lines, at, mark, fence = text.split("\n"), 0, None, None
    while at < len(lines):
        line = lines[at]
        at += 1
        found = re.fullmatch(r"<!-- test: (?:deep )?(\w+),?(?: (.+))? -->", line)
        if found:
            kind, name = found.groups()
            mark = KINDS.get(kind) or language(pathlib.PurePath(name or "")) or "text"
            title = ' title="%s"' % name if kind == "file" else ""
        elif fence or line.startswith("```"):
            if not fence and mark and line == "```":
                line, mark = "``` " + mark + title, None
            fence = None if fence and line == fence else fence or "```"
            yield line, True
        elif line.startswith("    ") and mark:
            end = at
            while end < len(lines) and (not lines[end] or lines[end].startswith("    ")):
                end += 1
            block = "\n".join(row[4:] for row in lines[at - 1:end]).strip("\n").split("\n")
            for row in ["``` " + mark + title] + block + ["```"]:
                yield row, True
            yield "", False
            at, mark = end, None
        else:
            yield line, line.startswith("    ")


class Pages:
    def __init__(self, project, to):
        self.project, self.to, self.known = project, to, set()

    def put(self, path, text):
        """Writes a page. In a table's code a bar needs no backslash for mkdocs."""
        text = re.sub(r"^\|.*", lambda row: re.sub(r"`[^`]+`", lambda m: m.group().replace("\\|", "|"), row.group()),
                      text, flags=re.M)
        out = self.to / "pages" / path
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")

    def target(self, page, link):
        """Where a link of a page leads to: brings what is there along."""
        path, _, anchor = link.partition("#")
        if not path or ":" in path:
            return link
        file = (self.project / page).parent.joinpath(path).resolve()
        if not file.is_file() or self.project not in file.parents:
            return link
        name = file.relative_to(self.project)
        if file.suffix == ".md":
            self.add(name)
            return link
        if language(file) is None:
            if name not in self.known:
                self.known.add(name)
                (self.to / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, self.to / "pages" / name)
            return link
        if name not in self.known:
            self.known.add(name)
            self.put("%s.md" % name, "# %s\n\n```` %s\n%s\n````\n" % (name, language(file),
                                                                   file.read_text(encoding="utf-8").rstrip("\n")))
        return "%s.md%s" % (path, "#" + anchor if anchor else "")

    def add(self, page):
        """A page of the project, and all that it links to."""
        if page in self.known:
            return
        self.known.add(page)
        text = (self.project / page).read_text(encoding="utf-8")
        self.put(page, "\n".join(
            line if code else LINK.sub(lambda m: "](%s)" % self.target(page, m.group(1)), line)
            for line, code in blocks(text)))

    def navigation(self, text):
        """The configuration with each path of `nav` that has a * replaced by the pages that match."""
        for line in text.split("\n"):
            found = re.fullmatch(r"( *- )(\S*\*\S*\.md)", line)
            if not found:
                yield line
                continue
            for file in sorted(self.project.glob(found.group(2))):
                yield found.group(1) + str(file.relative_to(self.project))


def main(project, to, einkorn=None, xml=None):
    project, to = pathlib.Path(project).resolve(), pathlib.Path(to)
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    pages = Pages(project, to)
    settings = "\n".join(pages.navigation((project / "docs/site/mkdocs.yml").read_text(encoding="utf-8")))
    (to / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (to / "pages").mkdir()
    shutil.copy(project / "docs/site/site.css", to / "pages")
    listed = re.findall(r"\S+\.md$", settings, re.M)
    for path in listed:
        if (project / path).is_file():
            pages.add(pathlib.Path(path))
    lost = sorted({str(page.relative_to(project)) for page in project.glob("docs/**/*.md")} - set(listed))
    if lost:
        sys.exit("%s: not in `nav` of docs/site/mkdocs.yml" % ", ".join(lost))
    if einkorn:
        import c_api
        import commands
        import functions
        import python_api
        for name, text in (("commands", commands.page(einkorn)), ("python", python_api.page(project)),
                           ("c", c_api.c_page(project, xml)), ("cpp", c_api.cpp_page(project, xml)),
                           ("functions", functions.page(project))):
            pages.put("docs/reference/%s.md" % name, text)


main(*sys.argv[1:])
