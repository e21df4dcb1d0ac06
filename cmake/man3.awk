# The public header as manual pages of section 3: one page for each function, and each struct and enumeration that has
# a comment or fields. A page has what the header says: the declaration, the comment, and, of a struct, its body.
# Variables: version, to (a folder).
#   awk -v version=0.1.0 -v to=FOLDER -f man3.awk einkorn.h
function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.']/) s = "\\&" s; return s }
function plain(s) { gsub(/\/\*|\*\//, "", s); gsub(/^[ \t]*\*? ?/, "", s); gsub(/[ \t]+$/, "", s); return s }
function page(name, what, synopsis, text,    file, first) {
  file = to "/" name ".3"
  first = text; sub(/\n.*/, "", first); sub(/\. .*|\.$|;.*/, "", first)
  if (first == "") first = what
  print ".TH " toupper(name) " 3 \"\" \"Einkorn " version "\" \"Einkorn\"" > file
  print ".SH NAME\n" roff(name) " \\- " roff(first) > file
  print ".SH SYNOPSIS\n.nf\n#include <einkorn/einkorn.h>\n" > file
  n = split(synopsis, lines, "\n"); for (i = 1; i <= n; i++) print roff(lines[i]) > file
  print ".fi" > file
  if (text != "") { print ".SH DESCRIPTION" > file; n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) print roff(lines[i]) > file }
  print ".SH NOTES\nErrors, ownership, threads and environment: the conventions in \\fBeinkorn\\fR(3)." > file
  print ".SH SEE ALSO\n\\fBeinkorn\\fR(3), \\fBeinkorn\\fR(1)" > file
  close(file)
  index_of[++pages] = name
}
# ---- the head of the header: the page einkorn(3) ----
NR == 1 { head = 1 }
head { text = text plain($0) "\n"; if (/\*\//) { head = 0; overview = text; comment = "" } next }
# ---- a struct or an enumeration: up to its closing brace ----
/^typedef / { fresh = comment_at == NR - 1 }
/^typedef (struct|enum) ek_[a-z_]+ \{/ { block = $0; if ($0 !~ /\} ek_[a-z_]+;/) { inside = 1; next } }
inside { block = block "\n" $0; if (/^\} ek_[a-z_]+;/) { name = $0; sub(/^\} /, "", name); sub(/;.*/, "", name)
  page(name, "a type of Einkorn's C interface", block, fresh ? comment : ""); inside = 0; comment = "" } next }
# ---- a function, which may go on in further lines, with its comment behind or before ----
/^EK_API / { declaration = $0; while (declaration !~ /;/) { getline more; declaration = declaration "\n" more }
  behind = declaration; if (behind ~ /\/\*/) sub(/^[^;]*;[ \t]*\/\*/, "", behind); else behind = ""
  if (behind != "") while (declaration !~ /\*\//) { getline more
    declaration = declaration "\n" more; behind = behind "\n" more }
  said = comment
  if (behind != "") { said = ""; n = split(behind, lines, "\n")
    for (i = 1; i <= n; i++) said = said (i > 1 ? "\n" : "") plain(lines[i]) }
  sub(/;.*/, ";", declaration); sub(/^EK_API /, "", declaration)
  name = declaration; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
  page(name, "a function of Einkorn's C interface", declaration, said)
  if (behind != "") comment = ""
  next }
/^typedef |^#|^[a-z]/ { comment = "" }
# ---- comments stand in front of what they are about, and go on for the declarations right behind ----
/^\/\*/ { comment = ""; open = 1 }
open { comment = comment (comment == "" ? "" : "\n") plain($0); if (/\*\//) { open = 0; comment_at = NR }
  if (comment ~ /^----/) comment = ""; next }
/^$/ { comment = "" }
END {
  file = to "/einkorn.3"
  print ".TH EINKORN 3 \"\" \"Einkorn " version "\" \"Einkorn\"" > file
  print ".SH NAME\neinkorn \\- compile deep\\-learning models to native code, and run them" > file
  print ".SH SYNOPSIS\n.nf\n#include <einkorn/einkorn.h>\ncc program.c \\-leinkorn\n.fi\n.SH DESCRIPTION\n.nf" > file
  n = split(overview, lines, "\n"); for (i = 1; i <= n; i++) print roff(lines[i]) > file
  print ".fi\n.SH SEE ALSO" > file
  for (i = 1; i <= pages; i++) print "\\fB" roff(index_of[i]) "\\fR(3)" (i < pages ? "," : "") > file
}
