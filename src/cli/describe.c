/* einkorn describe: the manual pages and the shells' completions, made from the tables that the parser reads
 * (commands, options, variables), from the passes, the targets and the operators. The build runs it; `make install`
 * puts the results where man and the shells look. Nothing here lists an option of its own. */
#include "cli/cli.h"
#include <ctype.h>
#include <string.h>

/* What completes a value, from what the table calls it */
typedef enum { V_NONE, V_ANY, V_FILE, V_ONE_OF, V_PASS, V_TARGET } value_kind;
static value_kind value_of(const option *o) {
  if (!o->value) return V_NONE;
  if (strchr(o->value, '|') && !strchr(o->value, ' ')) return V_ONE_OF;
  if (!strncmp(o->value, "FILE", 4)) return V_FILE;
  if (!strcmp(o->value, "PASS")) return V_PASS;
  return strcmp(o->value, "TARGET") ? V_ANY : V_TARGET;
}
static const char *joined(cli *k, const strvec *v) {
  sbuf b = sbuf_new(k->a);
  sb_put(&b, "");
  for (uint32_t i = 0; i < v->n; i++) sb_fmt(&b, "%s%s", i ? " " : "", v->v[i]);
  return b.s;
}
static const char *pass_names(cli *k) {
  strvec v = {0};
  const ek_pass_info *p;
  size_t n = 0;
  if (ek_passes(k->s, &p, &n)) n = 0;
  for (size_t i = 0; i < n; i++) {
    bool have = false;
    for (uint32_t j = 0; j < v.n; j++) have |= !strcmp(v.v[j], p[i].name);
    if (!have) vec_push(k->a, v, (const char *)arena_strdup(k->a, p[i].name));
  }
  return joined(k, &v);
}
static const char *target_names(cli *k) {
  strvec v = {0};
  const char *const *names;
  size_t n = 0;
  if (ek_targets(k->s, &names, &n)) n = 0;
  for (size_t i = 0; i < n; i++) vec_push(k->a, v, (const char *)arena_strdup(k->a, names[i]));
  return joined(k, &v);
}
static const char *operator_names(cli *k) {
  strvec v = {0};
  const ek_op_info *ops;
  size_t n = 0;
  if (ek_ops(k->s, &ops, &n)) n = 0;
  for (size_t i = 0; i < n; i++)
    if (!strchr(ops[i].name, ':')) vec_push(k->a, v, (const char *)arena_strdup(k->a, ops[i].name));
  return joined(k, &v);
}
static const char *words(cli *k, const option *o) { /* what a value can be, with blanks between; "" if it is free */
  char *alternatives;
  switch (value_of(o)) {
  case V_PASS:
    return pass_names(k);
  case V_TARGET:
    return target_names(k);
  case V_ONE_OF:
    alternatives = arena_strdup(k->a, o->value);
    for (char *p = alternatives; *p; p++)
      if (*p == '|') *p = ' ';
    return alternatives;
  default:
    return "";
  }
}
static const char *command_names(cli *k) {
  strvec v = {0};
  for (const command *c = commands; c->name; c++)
    if (c->about) vec_push(k->a, v, c->name);
  return joined(k, &v);
}
/* what can stand behind a command that takes no model */
static const char *arguments(cli *k, const command *c) {
  return c->bit == CMD_HELP ? command_names(k) : c->bit == CMD_TARGETS ? target_names(k) : operator_names(k);
}
static bool takes_model(const command *c) { return (c->bit & CMD_MODEL) != 0; }
static bool shown(const command *c) { return c->about != NULL; }

/* ---- manual pages ---------------------------------------------------------------------------- */
static void roff(const char *s) { /* Prints text so that roff leaves it as it is. */
  for (; *s; s++) {
    if (*s == '\\')
      fputs("\\e", stdout);
    else if (*s == '-')
      fputs("\\-", stdout);
    else
      putchar(*s);
  }
}
/* a request with text, or text alone; a text never begins a request by itself */
static void line(const char *request, const char *text) {
  if (request) printf("%s ", request);
  if (!request && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
  roff(text);
  putchar('\n');
}
/* Options that all commands of `of` take, but for those that all of `but_of` take. */
static void man_options(uint32_t of, uint32_t but_of) {
  for (const option *o = options; o->name; o++) {
    if ((o->commands & of) != of || (but_of && (o->commands & but_of) == but_of)) continue;
    fputs(".TP\n", stdout);
    if (o->letter) printf("\\fB\\-%c\\fR%s", o->letter, o->value ? "" : ", ");
    if (o->letter && o->value) {
      fputs(" \\fI", stdout);
      roff(o->value);
      fputs("\\fR, ", stdout);
    }
    fputs("\\fB\\-\\-", stdout);
    roff(o->name);
    fputs("\\fR", stdout);
    if (o->value) {
      fputs(" \\fI", stdout);
      roff(o->value);
      fputs("\\fR", stdout);
    }
    putchar('\n');
    line(NULL, o->what);
  }
}
static void man_end(const command *of) {
  fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 3 the model needs something that is not supported.\n.SH "
        "ENVIRONMENT\n",
        stdout);
  for (const variable *v = variables; v->name; v++) {
    printf(".TP\n\\fB%s\\fR=\\fI", v->name);
    roff(v->value);
    fputs("\\fR\n", stdout);
    line(NULL, v->what);
  }
  fputs(".SH SEE ALSO\n", stdout);
  const char *comma = "";
  if (of) fputs("\\fBeinkorn\\fR(1)", stdout), comma = ", ";
  for (const command *c = commands; c->name; c++)
    if (shown(c) && c != of) printf("%s\\fBeinkorn\\-%s\\fR(1)", comma, c->name), comma = ", ";
  putchar('\n');
}
static void man_program(cli *k) {
  printf(".TH EINKORN 1 \"\" \"Einkorn %s\" \"Einkorn\"\n.SH NAME\neinkorn \\- compiles deep\\-learning models to "
         "native code, and runs them\n.SH SYNOPSIS\n",
         ek_version());
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf("\\fBeinkorn %s\\fR ", c->name);
    line(NULL, c->synopsis);
    if (c[1].name && shown(c + 1)) puts(".br");
  }
  puts(".SH DESCRIPTION\nAn ONNX model goes in; native code comes out that runs at once in the process, or is saved as "
       "a library, an object file or C source that needs neither Einkorn nor LLVM.\n"
       "\\fIMODEL\\fR is an ONNX file, a graph as text, or (to run) a compiled library. Results go to standard output, "
       "everything else to standard error.");
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf(".TP\n\\fBeinkorn\\-%s\\fR(1)\n", c->name);
    line(NULL, c->what);
  }
  puts(".SH OPTIONS OF ALL COMMANDS");
  man_options(CMD_ALL, 0);
  puts(".SH OPTIONS OF ALL COMMANDS THAT TAKE A MODEL");
  man_options(CMD_MODEL, CMD_ALL);
  puts(".SH PASSES");
  line(NULL, pass_names(k));
  puts(".SH TARGETS");
  line(NULL, target_names(k));
  man_end(NULL);
}
static void man_command(cli *k, const command *c) {
  char upper[32];
  size_t n = 0;
  for (; c->name[n] && n + 1 < sizeof upper; n++) upper[n] = (char)toupper((unsigned char)c->name[n]);
  upper[n] = 0;
  printf(".TH EINKORN\\-%s 1 \"\" \"Einkorn %s\" \"Einkorn\"\n.SH NAME\neinkorn\\-%s \\- ", upper, ek_version(),
         c->name);
  line(NULL, c->what);
  printf(".SH SYNOPSIS\n\\fBeinkorn %s\\fR ", c->name);
  line(NULL, c->synopsis);
  puts(".SH DESCRIPTION");
  line(NULL, c->about);
  puts(".SH OPTIONS");
  man_options(c->bit, 0);
  if (c->bit == CMD_SHOW) {
    puts(".SH PASSES");
    const ek_pass_info *p;
    size_t passes = 0;
    if (ek_passes(k->s, &p, &passes)) passes = 0;
    for (size_t i = 0; i < passes; i++) {
      printf(".TP\n\\fB%s\\fR (%s)\n", p[i].name, p[i].level);
      line(NULL, p[i].doc);
    }
  }
  if (c->example) {
    printf(".SH EXAMPLE\n.nf\neinkorn %s ", c->name);
    line(NULL, c->example);
    puts(".fi");
  }
  man_end(c);
}

/* ---- bash: the word before the cursor decides; a file name where nothing better is known ----- */
static void bash(cli *k) {
  puts("# Completion of `einkorn` for bash.\n_einkorn() {\n  local cur=${COMP_WORDS[COMP_CWORD]} "
       "prev=${COMP_WORDS[COMP_CWORD-1]} command= i words=\n"
       "  [ \"$cur\" = = ] && cur=\n  [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -ge 2 ] && "
       "prev=${COMP_WORDS[COMP_CWORD-2]}\n  COMPREPLY=()\n"
       "  for ((i = 1; i < COMP_CWORD; i++)); do case ${COMP_WORDS[i]} in -*) ;; *) command=${COMP_WORDS[i]}; break ;; "
       "esac; done\n  case $command:$prev in");
  for (const command *c = commands; c->name; c++)
    for (const option *o = options; shown(c) && o->name; o++) {
      if (!(o->commands & c->bit) || !o->value) continue;
      printf("    %s:--%s", c->name, o->name);
      if (o->letter) printf("|%s:-%c", c->name, o->letter);
      const char *w = words(k, o);
      if (value_of(o) == V_FILE)
        puts(") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;");
      else if (value_of(o) == V_TARGET)
        printf(") COMPREPLY=($(compgen -f -W \"%s\" -- \"$cur\")); return ;;\n", w);
      else
        printf(") COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return ;;\n", w);
    }
  puts("  esac\n  case $command in");
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf("    %s) words=\"", c->name);
    for (const option *o = options; o->name; o++)
      if (o->commands & c->bit) printf("--%s ", o->name);
    puts("\" ;;");
  }
  fputs("    '') words=\"", stdout);
  for (const command *c = commands; c->name; c++)
    if (shown(c)) printf("%s ", c->name);
  puts("--help --version\" ;;\n  esac\n  case $command:$cur in\n    :*|*:-*) COMPREPLY=($(compgen -W \"$words\" -- "
       "\"$cur\")) ;;");
  for (const command *c = commands; c->name; c++)
    if (shown(c) && !takes_model(c))
      printf("    %s:*) COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")) ;;\n", c->name, arguments(k, c));
  puts("    *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n  esac\n}\ncomplete -o filenames -F _einkorn einkorn");
}

/* ---- zsh ------------------------------------------------------------------------------------- */
static void zsh_text(const char *s) { /* inside '..[..]..' of _arguments */
  for (; *s; s++) {
    if (strchr("[]:\\", *s)) putchar('\\');
    if (*s == '\'')
      fputs("'\\''", stdout);
    else
      putchar(*s);
  }
}
static void zsh_option(cli *k, const option *o) {
  if (o->letter && o->kind == O_LIST)
    printf(" \\\n    '*'{-%c,--%s}'[", o->letter, o->name);
  else if (o->letter)
    printf(" \\\n    '(-%c --%s)'{-%c,--%s}'[", o->letter, o->name, o->letter, o->name);
  else
    printf(" \\\n    '%s--%s[", o->kind == O_LIST ? "*" : "", o->name);
  zsh_text(o->what);
  putchar(']');
  if (o->value) {
    putchar(':');
    zsh_text(o->value);
    putchar(':');
    if (value_of(o) == V_FILE)
      fputs("_files", stdout);
    else if (*words(k, o))
      printf("(%s)", words(k, o));
    else
      putchar(' ');
  }
  putchar('\'');
}
static void zsh(cli *k) {
  puts("#compdef einkorn\n# Completion of `einkorn` for zsh.\n_einkorn() {\n  local -a commands=(");
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf("    '%s:", c->name);
    zsh_text(c->what);
    puts("'");
  }
  puts("  )\n  if ((CURRENT == 2)); then _describe command commands; _arguments '--help' '--version'; return; fi\n  "
       "local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in");
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf("  %s) _arguments -s", c->name);
    for (const option *o = options; o->name; o++) {
      if (!(o->commands & c->bit)) continue;
      zsh_option(k, o);
    }
    if (takes_model(c))
      puts(" \\\n    ':model:_files' ;;");
    else
      printf(" \\\n    ':name:(%s)' ;;\n", arguments(k, c));
  }
  puts("  esac\n}\nif [ \"$funcstack[1]\" = _einkorn ]; then _einkorn \"$@\"; else compdef _einkorn einkorn; fi");
}

/* ---- fish ------------------------------------------------------------------------------------ */
static void fish_text(const char *s) {
  for (; *s; s++) {
    if (*s == '\'' || *s == '\\') putchar('\\');
    putchar(*s);
  }
}
static void fish(cli *k) {
  puts("# Completion of `einkorn` for fish.");
  for (const command *c = commands; c->name; c++) {
    if (!shown(c)) continue;
    printf("complete -c einkorn -f -n __fish_use_subcommand -a %s -d '", c->name);
    fish_text(c->what);
    puts("'");
    if (!takes_model(c))
      printf("complete -c einkorn -f -n '__fish_seen_subcommand_from %s' -a '%s'\n", c->name, arguments(k, c));
    for (const option *o = options; o->name; o++) {
      if (!(o->commands & c->bit)) continue;
      printf("complete -c einkorn -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
      if (o->letter) printf(" -s %c", o->letter);
      if (value_of(o) == V_FILE)
        fputs(" -r -F", stdout);
      else if (o->value)
        printf(" -x -a '%s'", words(k, o));
      fputs(" -d '", stdout);
      fish_text(o->what);
      puts("'");
    }
  }
}

int cmd_describe(cli *k) {
  const char *what = k->args.v[0], *of = k->args.n > 1 ? k->args.v[1] : NULL;
  if (!strcmp(what, "man") && of) {
    for (const command *c = commands; c->name; c++)
      if (shown(c) && !strcmp(c->name, of)) return man_command(k, c), EXIT_DONE;
    return fail_text(k, EK_USAGE, arena_fmt(k->a, "error: there is no command %s", of));
  }
  if (!strcmp(what, "man"))
    man_program(k);
  else if (!strcmp(what, "commands"))
    for (const command *c = commands; c->name; c++) shown(c) ? (void)puts(c->name) : (void)0;
  else if (!strcmp(what, "bash"))
    bash(k);
  else if (!strcmp(what, "zsh"))
    zsh(k);
  else if (!strcmp(what, "fish"))
    fish(k);
  else
    return fail_text(k, EK_USAGE,
                     arena_fmt(k->a, "error: nothing is described as %s: man, commands, bash, zsh or fish", what));
  return EXIT_DONE;
}
