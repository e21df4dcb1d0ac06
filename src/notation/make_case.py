#!/usr/bin/env python3
"""Writes case_runs.h: upper and lower case of every character, by Python's tables of Unicode (full case mapping).

  make_case.py > case_runs.h          anew, with the Unicode version of the Python that runs it

A run is: the characters from first to last in steps, each of which becomes itself plus delta. A character that becomes
several has a run of its own for the first of them, and the others in a list.
"""
import unicodedata


def mapping(change):
    return {c: change(chr(c)) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and change(chr(c)) != chr(c)}


def runs(table):
    found = []
    for c in sorted(table):
        delta = ord(table[c][0]) - c
        if found:
            first, last, step, d = found[-1]
            gap = c - last
            if d == delta and gap <= 2 and (first == last or gap == step):
                found[-1] = (first, c, gap, d)
                continue
        found.append((c, c, 1, delta))
    return found


def lines(items):
    text = ""
    for item in items:
        text += ("\n    " if len(text) - text.rfind("\n") + len(item) > 116 else " " if text else "    ") + item
    return text


print(f"/* Upper and lower case of characters in Unicode {unicodedata.unidata_version}: written by make_case.py. */")
for name, change in (("upper", str.upper), ("lower", str.lower)):
    table = mapping(change)
    print(f"static const case_run {name}_runs[] = {{")
    print(lines([f"{{{a:#x}, {b:#x}, {s}, {d}}}," for a, b, s, d in runs(table)]) + "\n};")
    print(f"static const case_more {name}_more[] = {{")
    several = [(c, t) for c, t in sorted(table.items()) if len(t) > 1]
    print(lines([f"{{{c:#x}, {{{ord(t[1]):#x}, {ord(t[2]) if len(t) > 2 else 0:#x}}}}}," for c, t in several]) + "\n};")
