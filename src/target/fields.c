/* How is a target read, written and described? One row for each field of fields.def says where the field lies in the
 * struct, its kind and its range; parser, printer and page are loops over the rows. */
#include "target/fields.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum { F_SECTION, F_TEXT, F_CPUS, F_FLAG, F_COUNT, F_POWER, F_BYTES, F_REAL } field_kind;
typedef struct field {
  field_kind kind;   /* type of the field, or a title between fields */
  const char *name;  /* key in a target file; a section's title */
  size_t at;         /* offset in target */
  double least;      /* least value of a number */
  double most;       /* greatest value of a number */
  const char *words; /* what a text may be, with | between; empty: anything */
  const char *unit;  /* unit of a number */
  const char *about; /* meaning, one line */
} field;
#define SECTION(title) {.kind = F_SECTION, .name = title},
#define TEXT(name, key, value, words, about) {F_TEXT, key, offsetof(target, name), 0, 0, words, "", about},
#define CPUS(name, key, about) {F_CPUS, key, offsetof(target, name), 0, 0, "", "", about},
#define FLAG(name, value, about) {F_FLAG, #name, offsetof(target, name), 0, 1, "yes|no", "", about},
#define COUNT(name, value, least, most, unit, about)                                                                   \
  {F_COUNT, #name, offsetof(target, name), least, most, "", unit, about},
#define REAL(name, value, least, most, unit, about)                                                                    \
  {F_REAL, #name, offsetof(target, name), least, most, "", unit, about},
#define POWER(name, value, most, unit, about) {F_POWER, #name, offsetof(target, name), 0, most, "", unit, about},
#define BYTES(name, value, most, about) {F_BYTES, #name, offsetof(target, name), 0, most, "", "bytes", about},
static const field fields[] = {
#include "target/fields.def"
};
enum { FIELDS = sizeof fields / sizeof *fields };

#define SECTION(title)
#define TEXT(name, key, value, words, about) .name = (value),
#define CPUS(name, key, about) .name = "",
#define FLAG(name, value, about) .name = (value),
#define COUNT(name, value, least, most, unit, about) .name = (value),
#define POWER(name, value, most, unit, about) .name = (value),
#define BYTES(name, value, most, about) .name = (value),
#define REAL(name, value, least, most, unit, about) .name = (value),
target target_defaults(void) {
  return (target){
#include "target/fields.def"
  };
}

/* ---- reading --------------------------------------------------------------------------------------------------- */
static bool one_of(const char *words, const char *v) {
  size_t n = strlen(v);
  for (const char *w = words; *w;) {
    size_t m = strcspn(w, "|");
    if (m == n && !memcmp(w, v, n)) return true;
    w += m + (w[m] == '|');
  }
  return !*words;
}
static bool integer(const char *v, uint64_t *n) {
  char *end;
  errno = 0;
  *n = strtoull(v, &end, 10);
  return *v >= '0' && *v <= '9' && !*end && !errno;
}
/* Sets a field to what the text v says; false: v is no value for it. v must live as long as the target. */
static bool set(ctx *c, target *t, const field *f, const char *v) {
  void *at = (char *)t + f->at;
  uint64_t n = 0;
  bool good;
  double x;
  char *end;
  switch (f->kind) {
  case F_TEXT:
    *(const char **)at = v;
    return one_of(f->words, v);
  case F_CPUS:
    *(const char **)at = v;
    return cpu_is(v, &good) || good;
  case F_FLAG:
    *(bool *)at = !strcmp(v, "yes") || EK_PLANTED("target-fields");
    return one_of(f->words, v);
  case F_REAL:
    x = num_parse(c, v, &end);
    *(double *)at = x;
    return end != v && !*end && x >= f->least && x <= f->most;
  default:
    if (!integer(v, &n) || (double)n < f->least || (double)n > f->most || (f->kind == F_POWER && n & (n - 1)))
      return false;
    if (f->kind == F_BYTES)
      *(uint64_t *)at = n;
    else
      *(uint32_t *)at = (uint32_t)n;
    return true;
  }
}
/* Puts which values a field may have. */
static void put_values(sbuf *b, const field *f) {
  if (f->kind == F_CPUS) {
    sb_put(b, "VENDOR FAMILY [MODEL or FROM-TO]..");
  } else if (f->kind == F_TEXT || f->kind == F_FLAG) {
    for (const char *w = f->words; *w; w++)
      if (*w == '|')
        sb_put(b, " or ");
      else
        sb_putc(b, *w);
    if (!*f->words) sb_put(b, "text");
  } else if (f->kind == F_POWER) {
    sb_fmt(b, "0 or a power of two up to ");
    sb_double(b, f->most);
  } else {
    sb_double(b, f->least);
    sb_put(b, " to ");
    sb_double(b, f->most);
  }
}
static const field *find(const char *name) {
  for (uint32_t i = 0; i < FIELDS; i++)
    if (fields[i].kind != F_SECTION && !strcmp(fields[i].name, name)) return &fields[i];
  return NULL;
}
static const char *meant(ctx *c, const char *name) {
  const char *names[FIELDS + IK_COUNT];
  uint32_t n = IK_COUNT;
  instruction_key_names(names);
  for (uint32_t i = 0; i < FIELDS; i++)
    if (fields[i].kind != F_SECTION) names[n++] = fields[i].name;
  return did_you_mean(ctx_arena(c), name, names, n);
}
typedef struct reader {
  ctx *c;            /* gets the diagnostics */
  const char *name;  /* name of the target */
  const char *file;  /* the file, for diagnostics */
  uint32_t line;     /* line that is read */
  target *t;         /* gets the values */
  uint32_t own;      /* instructions below this index were declared by what it extends */
  uint32_t open;     /* 1 + index of the instruction whose keys follow; 0: none */
  bool seen[FIELDS]; /* the file has set this field */
  bool begun;        /* the file has set a field, or extends another one */
} reader;
static bool read_text(reader *r, const char *file, bytes text);
/* Begins with what a built-in target says; NULL, or what is wrong with it. */
static const char *extend(reader *r, const char *name) {
  bytes text;
  reader base = {.c = r->c, .name = r->name, .t = r->t};
  if (r->begun) return "`extends` must be the first line";
  if (!target_text(name, &text)) return arena_fmt(ctx_arena(r->c), "it extends `%s`, which is not built in", name);
  r->begun = true;
  if (!read_text(&base, name, text)) return "what it extends has errors";
  r->own = r->t->instructions.n;
  return NULL;
}
/* Begins an instruction, in the place of one of that name that was declared by what the file extends. */
static const char *begin_instruction(reader *r, const char *name) {
  arena *a = ctx_arena(r->c);
  const instruction new = {.name = name, .pos = {r->file, r->line, 1}}, *had = target_instruction(r->t, name);
  if (!had) {
    vec_push(a, r->t->instructions, new);
    r->open = r->t->instructions.n;
    return NULL;
  }
  r->open = 1 + (uint32_t)(had - r->t->instructions.v);
  if (had->pos.file == r->file || r->open > r->own) return arena_fmt(a, "instruction %s is declared twice", name);
  r->t->instructions.v[r->open - 1] = new;
  return NULL;
}
static const char *set_instruction(reader *r, int key, const char *v) {
  arena *a = ctx_arena(r->c);
  const char *names[IK_COUNT];
  instruction_key_names(names);
  if (!r->open)
    return arena_fmt(a, "`%s` belongs to an instruction: expected `instruction = NAME` before it", names[key]);
  instruction *k = &r->t->instructions.v[r->open - 1];
  if (k->text[key]) return arena_fmt(a, "`%s` is set twice", names[key]);
  k->text[key] = v, k->line[key] = r->line;
  return NULL;
}
/* One line without comment and newline; NULL, or what is wrong with it. */
static const char *read_line(reader *r, char *s) {
  arena *a = ctx_arena(r->c);
  char *key = s + strspn(s, " \t\r"), *eq = strchr(key, '='), *stop = eq;
  if (!*key) return NULL;
  if (!eq) return "expected `key = value`";
  char *v = eq + 1 + strspn(eq + 1, " \t\r");
  while (stop > key && strchr(" \t", stop[-1])) stop--;
  *stop = 0;
  for (size_t n = strlen(v); n && strchr(" \t\r", v[n - 1]);) v[--n] = 0;
  if (!strcmp(key, "extends")) return extend(r, v);
  r->begun = true;
  if (!strcmp(key, "instruction")) return begin_instruction(r, v);
  const int of_instruction = instruction_key(key);
  if (of_instruction >= 0) return set_instruction(r, of_instruction, v);
  const field *f = find(key);
  if (!f) return arena_fmt(a, "unknown key `%s`%s", key, meant(r->c, key));
  if (r->seen[f - fields]) return arena_fmt(a, "`%s` is set twice", key);
  r->seen[f - fields] = true;
  if (set(r->c, r->t, f, v)) return NULL;
  sbuf b = sbuf_new(a);
  put_values(&b, f);
  return arena_fmt(a, "`%s` is no value for %s; expected %s", v, key, b.s);
}
static bool read_text(reader *r, const char *file, bytes text) {
  const char *all = (const char *)text.p;
  bool good = true;
  uint32_t line = 1;
  for (size_t i = 0, end; i < text.n; i = end + 1, line++) {
    for (end = i; end < text.n && all[end] != '\n';) end++;
    char *s = arena_strndup(ctx_arena(r->c), all + i, end - i);
    s[strcspn(s, "#")] = 0;
    r->file = file, r->line = line;
    const char *why = read_line(r, s);
    if (!why) continue;
    diag_add(r->c, D_ERROR, E_TARGET, (srcpos){file, line, 1}, NULL, "target %s: %s", r->name, why);
    good = false;
  }
  return good;
}
bool target_read(ctx *c, const char *name, const char *file, bytes text, target *t) {
  reader r = {.c = c, .name = name, .t = t};
  if (!read_text(&r, file, text)) return false;
  if (*t->triple) return true;
  diag_add(c, D_ERROR, E_TARGET, (srcpos){file, 1, 1}, NULL, "target %s: no triple", name);
  return false;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */
static void put_value(const target *t, const field *f, sbuf *b) {
  const void *at = (const char *)t + f->at;
  switch (f->kind) {
  case F_TEXT:
  case F_CPUS:
    sb_put(b, *(const char *const *)at ? *(const char *const *)at : "");
    return;
  case F_FLAG:
    sb_put(b, *(const bool *)at ? "yes" : "no");
    return;
  case F_REAL:
    sb_double(b, *(const double *)at);
    return;
  default:
    sb_fmt(b, "%llu", f->kind == F_BYTES ? (unsigned long long)*(const uint64_t *)at : *(const uint32_t *)at);
  }
}
void target_print(const target *t, sbuf *b) {
  for (const field *f = fields; f < fields + FIELDS; f++) {
    if (f->kind == F_SECTION) {
      sb_fmt(b, "%s# %s\n", f == fields ? "" : "\n", f->name);
      continue;
    }
    sb_fmt(b, "%s = ", f->name);
    put_value(t, f, b);
    if (b->s[b->n - 1] == ' ') b->n--; /* an empty text */
    sb_putc(b, '\n');
  }
  instructions_print(t, b);
}
void target_fields(sbuf *b) {
  target t = target_defaults();
  sb_put(
      b,
      "# Fields of a target\n\n"
      "What a target file can say about a machine: lines `key = value`; `#` starts a comment. A first line `extends = "
      "NAME`\nbegins with all that the built-in target NAME says. [Adding a target](adding-a-target.md) tells how to "
      "write a file.\n`make docs` writes this page from the compiler's own table (`einkorn targets --table`).\n");
  for (const field *f = fields; f < fields + FIELDS; f++) {
    if (f->kind == F_SECTION) {
      sb_fmt(b, "\n## %s\n\n| key | value | unit | default | meaning |\n|---|---|---|---|---|\n", f->name);
      continue;
    }
    sb_fmt(b, "| `%s` | ", f->name);
    put_values(b, f);
    sb_fmt(b, " | %s | ", f->unit);
    put_value(&t, f, b);
    sb_fmt(b, " | %s |\n", f->about);
  }
  instructions_fields(b);
}
