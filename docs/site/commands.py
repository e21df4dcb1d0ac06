"""The reference of the command line, from the manual pages that the program prints (`einkorn describe man`)."""
import re
import subprocess


def plain(text):
    """A line of a manual page without its escapes."""
    return re.sub(r"\\f[BIR]", "", text).replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'")


def cell(text):
    return plain(text).replace("|", "\\|").replace("<", "&lt;")


def sections(man):
    """(title, lines) of each section of a manual page."""
    found = []
    for line in man.splitlines():
        if line.startswith(".SH "):
            found.append((line[4:].strip('"'), []))
        elif found:
            found[-1][1].append(line)
    return found


def body(lines):
    """The lines of a section as Markdown: terms become rows of a table, examples a block."""
    out, at, rows = [], 0, []
    while at < len(lines):
        line = lines[at]
        at += 1
        if line == ".TP":
            terms = ("`%s`" % term for term in plain(lines[at]).split(", "))
            rows.append("| %s | %s |" % (", ".join(terms), cell(lines[at + 1])))
            at += 2
        elif line == ".nf":
            end = lines.index(".fi", at)
            out += ["", "``` console"] + [plain(row) for row in lines[at:end]] + ["```", ""]
            at = end + 1
        elif line in (".PP", ".br"):
            out.append("")
        else:
            out.append(plain(line))
    if rows:
        out += ["", "| | |", "|---|---|"] + rows + [""]
    return out


def page(einkorn):
    def says(*words):
        return subprocess.run([einkorn, "describe", *words], check=True, capture_output=True, text=True).stdout

    out = ["# Command line", "", "`einkorn help COMMAND` and `man einkorn-COMMAND` say the same.", ""]
    for command in says("commands").split():
        out += ["## %s" % command, ""]
        for title, lines in sections(says("man", command)):
            if title == "NAME":
                out += [plain(" ".join(lines)).partition(" - ")[2].capitalize() + ".", ""]
            elif title == "SYNOPSIS":
                out += ["``` console"] + [plain(line) for line in lines if not line.startswith(".")] + ["```", ""]
            elif title in ("DESCRIPTION", "OPTIONS", "PASSES", "EXAMPLE"):
                out += ["**%s**" % title.capitalize(), ""] if title in ("PASSES", "EXAMPLE") else []
                out += body(lines) + [""]
    for title, lines in sections(says("man")):
        if title in ("TARGETS", "EXIT STATUS", "ENVIRONMENT"):
            out += ["## %s" % title.capitalize(), ""] + body(lines) + [""]
    return "\n".join(out)
