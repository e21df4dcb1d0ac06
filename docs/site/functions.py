"""The reference of the notation's functions: those that the compiler has (the table of src/notation/builtins.def), and
those of ops/lib.ek with their definitions."""
import re


def page(project):
    table = (project / "src/notation/builtins.def").read_text(encoding="utf-8")
    out = ["# Functions of the notation", "", "What a definition of an operator ([the notation](../notation.md)) may "
           "call. The functions of the first tables belong to the language.", ""]
    for line in table.split("\n"):
        title = re.match(r"/\* ---- (.*?)(?:: (.*?))? -* ?\*/", line)
        row = re.match(r"\w+\(\w+, -?\d+, -?\d+\) */\* (.*?): (.*) \*/", line)
        if title:
            out += ["", "## %s" % title.group(1), "", title.group(2) or "", "", "| | |", "|---|---|"]
        elif row:
            out.append("| `%s` | %s |" % (row.group(1), row.group(2).replace("|", "\\|").replace("*", "\\*")))
    out += ["", "## Functions of the library", "", "`ops/lib.ek` defines them; a function of your own file hides the "
            "one of that name.", "", "``` text"]
    library = (project / "ops/lib.ek").read_text(encoding="utf-8").split("\n")
    return "\n".join(out + library[1:]).rstrip("\n") + "\n```\n"
