"""The reference of the C and C++ interfaces. Doxygen reads the headers, whose comments get the marks that it looks for
(`c_api.py HEADER` prints the header with them, line by line as it was); its XML becomes a page in the header's
order."""
import re
import sys
import xml.etree.ElementTree as tree


def marked(text):
    """A header whose comments are Doxygen's: behind code they explain what stands before, else what follows. The
    comment at its head, and the lines that divide it into sections, stay as they are."""
    head = text.index("*/")
    rows = []
    for row in text[head:].split("\n"):
        row = re.sub(r"^(\s+)(.*\S \{) /\* (.*) \*/$", r"\1/** \3 */ \2", row) # at the opening of a body
        row = re.sub(r"^(\s*)/\*(?= (?!----))", r"\1/**", row)
        rows.append(re.sub(r"^(?!\s*/\*)(.*\S\s*)/\*(?= )", r"\1/**<", row))
    return text[:head] + "\n".join(rows)


def comment(text):
    """The lines of a comment without its marks."""
    return [re.sub(r"^ \* ?", "", row) for row in re.sub(r"^/\* ?|\s*\*/$", "", text).split("\n")]


def head(text):
    """The comment at the head of a header as Markdown: indented lines are an example, a capitalised word in front of
    two blanks, or a line of such a list, begins a row of a table."""
    out, rows = [], []
    for row in comment(text[:text.index("*/") + 2]) + [""]:
        term = re.match(r"([A-Z][A-Za-z]+) {2,}(\S.*)$|(Environment) (\S.*)$", row)
        if term:
            rows.append([term.group(1) or term.group(3), term.group(2) or term.group(4)])
        elif rows and row:
            rows[-1][1] += " " + row.strip()
        elif row.startswith("  "):
            out.append("  " + row)
        else:
            out.append(safe(row))
    if rows:
        out += ["", "| | |", "|---|---|"] + ["| %s | %s |" % (name, safe(said)) for name, said in rows]
    return out + [""]


def sections(text):
    """(line, title, text) of each comment that begins a section."""
    for found in re.finditer(r"/\* ---- .*?\*/", text, re.S):
        said = " ".join(" ".join(comment(found.group())).split())
        title, _, rest = said[5:].partition(" ----")
        title, _, more = title.partition(": ")
        yield text.count("\n", 0, found.start()) + 1, title, (more + " " + rest.strip(" -")).strip()


def safe(text):
    """Text as Markdown: what has a meaning there outside of backquotes loses it."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if i % 2 else re.sub(r"([*_\[\]|\\<])", r"\\\1", part) for i, part in enumerate(parts))


class Header:
    """One header: what Doxygen found in it, as items with the line where each stands."""

    def __init__(self, project, xml, name):
        self.text = (project / "include/einkorn" / name).read_text(encoding="utf-8")
        self.xml, self.names, self.items = xml, {}, []
        self.file = self.compound(name.replace(".", "_8"))
        self.classes = [self.compound(c.get("refid")) for c in self.file.iter("innerclass")]
        for c in self.classes:
            self.names[c.get("id")] = c.findtext("compoundname")
        for member in self.file.iter("memberdef"):
            self.names[member.get("id")] = member.findtext("name")

    def compound(self, name):
        return tree.parse("%s/%s.xml" % (self.xml, name)).getroot().find("compounddef")

    def said(self, node, table=False):
        """The description of an item as Markdown; in a table in one line."""
        paragraphs = []
        for part in ("briefdescription", "detaileddescription"):
            for para in node.find(part).findall("para"):
                text = "".join(self.inline(para)).strip()
                paragraphs.append(text[:1].upper() + text[1:] if not re.match(r"[a-z]+_|\w+:", text) else text)
        return (" " if table else "\n\n").join(paragraphs)

    def inline(self, node):
        yield safe(" ".join((node.text or "").split("\n")))
        for child in node:
            if child.tag == "ref":
                name = "".join(child.itertext())
                known = self.names.get(child.get("refid"))
                yield "[`%s`](#%s)" % (name, known.lower()) if known else "`%s`" % name
            elif child.tag == "ndash":
                yield "--"
            else:
                yield from self.inline(child)
            yield safe(" ".join((child.tail or "").split("\n")))

    def line(self, node):
        return int(node.find("location").get("line"))

    def functions(self):
        """Functions. Those without a comment on the lines below another one share its comment."""
        last = None
        for node in sorted((m for m in self.file.iter("memberdef") if m.get("kind") == "function"), key=self.line):
            said, line = self.said(node), self.line(node)
            if not said and last and line - last[1] <= 2:
                last[0]["names"].append(node.findtext("name"))
                last[0]["code"].append(declaration(node))
            else:
                last = [{"line": line, "names": [node.findtext("name")], "code": [declaration(node)], "said": said}, 0]
                self.items.append(last[0])
            last[1] = line

    def enums(self):
        for node in self.file.iter("memberdef"):
            if node.get("kind") != "enum":
                continue
            rows, number = [], -1
            for value in node.findall("enumvalue"):
                given = (value.findtext("initializer") or "").strip("= ")
                number = int(given) if given else number + 1
                rows.append("| `%s` | %d | %s |" % (value.findtext("name"), number, self.said(value, True)))
            self.items.append({"line": self.line(node), "names": [node.findtext("name")], "code": [],
                               "said": self.said(node), "rows": ["| value | | |", "|---|---|---|"] + rows})

    def structs(self):
        for node in self.classes:
            rows = []
            for m in node.iter("memberdef"):
                field = "%s %s%s" % (words(m.find("type")), m.findtext("name"), m.findtext("argsstring") or "")
                rows.append("| `%s` | %s |" % (tidy(field), self.said(m, True)))
            self.items.append({"line": self.line(node), "names": [node.findtext("compoundname")], "code": [],
                               "said": self.said(node), "rows": ["| field | |", "|---|---|"] + rows})

    def handles(self):
        """Opaque types."""
        defined = {name for item in self.items for name in item["names"]}
        for node in self.file.iter("memberdef"):
            if node.get("kind") == "typedef" and node.findtext("name") not in defined:
                self.items.append({"line": self.line(node), "names": [node.findtext("name")],
                                   "code": [tidy(node.findtext("definition"))], "said": self.said(node)})


def words(node):
    return "".join(node.itertext())


def tidy(text):
    """C as the project writes it: a star belongs to the name."""
    text = re.sub(r"([*&])\s+(?=[\w(*])", r"\1", text)
    return re.sub(r"\(\s+\*", "(*", text).replace("< ", "<").replace(" >", ">")


def declaration(node):
    return tidy("%s %s%s" % (words(node.find("type")), node.findtext("name"), node.findtext("argsstring")))


def c_page(project, xml):
    header = Header(project, xml, "einkorn.h")
    header.functions()
    header.enums()
    header.structs()
    header.handles()
    out = ["# C", ""] + head(header.text)
    divisions = [(0, "Types and codes", "")] + list(sections(header.text))
    for at, (line, title, said) in enumerate(divisions):
        end = divisions[at + 1][0] if at + 1 < len(divisions) else 1 << 30
        out += ["## %s" % (title[:1].upper() + title[1:]), "", safe(said), ""]
        for item in sorted(header.items, key=lambda i: i["line"]):
            if line <= item["line"] < end:
                out += ["### %s" % ", ".join(item["names"]), ""]
                out += ["[](){#%s}" % name for name in item["names"] if len(item["names"]) > 1] + [""]
                out += ["``` c"] + [row + ";" for row in item["code"]] + ["```", ""] if item["code"] else []
                out += [item["said"], ""] + item.get("rows", []) + [""]
    return "\n".join(out)


def cpp_page(project, xml):
    header = Header(project, xml, "einkorn.hpp")
    out = ["# C++", ""] + head(header.text)
    for node in sorted(header.classes, key=header.line):
        name = node.findtext("compoundname")
        if node.get("kind") != "class" or "detail" in name:
            continue
        out += ["## %s" % name, "", header.said(node), ""]
        rows = []
        for m in node.iter("memberdef"):
            if m.get("prot") == "public" and not m.findtext("name").startswith(("~", "operator=")):
                rows.append("| `%s` | %s |" % (declaration(m) if m.get("kind") == "function" else tidy(
                    "%s %s" % (words(m.find("type")), m.findtext("name"))), header.said(m, True)))
        out += ["| member | |", "|---|---|"] + rows + [""]
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(marked(open(sys.argv[1], encoding="utf-8").read()))
