/* record: the schedules of kernels, and how tensors are stored, as data and as text.
 *
 * A schedule says how a kernel computes what its formulas say: which variable runs along the lanes of a vector, how
 * large a register tile is, in which order the loops stand, what is packed, how the work is divided among threads. It
 * is a list of directives, one a line: a primitive (primitives.def has the table) and its words:
 *
 *   schedules 1
 *   tensor relu1.Y {                      how it is stored. An axis is named like the variable that counts it
 *     layout n h w c                      the axes, outermost first
 *     halo h 1 1 w 1 1 fill 0             places before and after an axis, which hold a constant
 *     pad w 16                            places of w lie 16 elements farther apart than they would
 *   }
 *   tensor pool2.Y {
 *     in concat3.Y at c 64                it is a part of that one, and has no memory of its own
 *   }
 *   kernel k3 @9f3a2c41d0e7b655 {         its number, for readers, and a hash of what it computes
 *     threads always
 *     chunks points n rows 24
 *     nest relu2.Y {                      the loops that compute relu2.Y, and what is computed with it
 *       order n (o0 o1) m                 (o0 o1): one loop over the points of both
 *       lanes m 16
 *       rows (o0 o1)
 *       tile 6 2
 *       reduce c k0 k1
 *       pack w2
 *     }
 *   }
 *
 * @9f3a2c41d0e7b655:2 is the second kernel with this hash; without :2 all are meant. A kernel may also be named by its
 * number alone. A tensor goes by its name, which is unique in a module and comes from the model. There is one for each
 * tensor in memory whose place is chosen: not for inputs, outputs and constants (row-major), nor for what passes into
 * and out of branches and loops; but for the new value of a state, whose old value lies like it.
 *
 * The schedule of a compilation is recorded while it is made, where it is asked for (schedule_opts.record). A text
 * that is given (schedule_opts.schedules) replaces what it states; what it does not state is decided as ever, for what
 * it states. A directive that cannot be followed is an error at its line, with the reason. */
#ifndef EK_SCHEDULE_RECORD_H
#define EK_SCHEDULE_RECORD_H
#include "expr/expr.h"

enum { SCHEDULES_VERSION = 1 };
/* characters of a word that needs no quotes */
#define RECORD_BARE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%:-"
typedef enum primitive {
#define PRIMITIVE(ID, ...) P_##ID,
#include "schedule/primitives.def"
  P_COUNT
} primitive;
typedef enum { OF_KERNEL, OF_NEST, OF_TENSOR } record_of;
/* What the text knows of a primitive. */
typedef struct primitive_form {
  const char *name;    /* the first word of the directive */
  record_of of;        /* what it is said of */
  bool repeats;        /* it may be given several times */
  bool last;           /* it is decided when all else is (finish.c) */
  uint32_t least;      /* number of words after the name, at least */
  uint32_t most;       /* the same, at most */
  const char *words;   /* what the words are, for messages */
  const char *meaning; /* one line */
} primitive_form;
extern const primitive_form primitive_forms[P_COUNT];
/* the two words of which the primitive takes one; false: it takes others */
bool record_either(arena *a, primitive is, const char *words[2]);

typedef struct directive {
  primitive is; /* the primitive */
  srcpos pos;   /* where it stands; file NULL: it was recorded */
  strvec words; /* the words after the name. A list in parentheses is one word: "(a b)" */
  bool used;    /* somebody asked for it; what nobody asks for does not apply to the kernel */
} directive;
typedef VEC(directive) directives;
typedef struct nest_record {
  const char *name;      /* the tensor that the nest's first stage computes */
  srcpos pos;            /* where it stands */
  directives directives; /* in any order */
} nest_record;
typedef struct kernel_record {
  uint32_t number;        /* number of the kernel: 3 for k3; where there is a hash, for readers */
  bool hashed;            /* the hash is given */
  uint64_t hash;          /* hash of what the kernel computes (kernel_hash) */
  uint32_t nth;           /* which kernel of those with this hash, from 1; 0: all of them */
  srcpos pos;             /* where it stands */
  directives directives;  /* those of the kernel */
  VEC(nest_record) nests; /* in the order of execution */
  bool used;              /* some kernel has it */
} kernel_record;
/* How a tensor is stored. */
typedef struct tensor_record {
  const char *name;      /* its name in the module */
  srcpos pos;            /* where it stands */
  directives directives; /* in any order */
  bool used;             /* there is such a tensor */
  /* of a part that is recorded: what it is in; NULL: it is in none, or that one has a place that is not chosen */
  struct tensor_record *whole;
  const struct tensor_facts *facts; /* what other ways to store it are made of (candidates.h); NULL: there are none */
} tensor_record;
/* A text of schedules. */
typedef struct schedules {
  VEC(tensor_record) tensors; /* in the order of the text */
  VEC(kernel_record) kernels; /* in the order of the text */
} schedules;

/* a new directive of the record, without words */
directive *record_add(arena *a, kernel_record *k, nest_record *n, primitive is);
directive *record_add_tensor(arena *a, tensor_record *t, primitive is);
void record_word(arena *a, directive *d, const char *word);
void record_number(arena *a, directive *d, int64_t n);
/* the directive of a nest (NULL: of the kernel); NULL: it is not stated */
directive *record_find(const kernel_record *k, const nest_record *n, primitive is);
directive *record_find_tensor(const tensor_record *t, primitive is);
nest_record *record_nest_named(const kernel_record *k, const char *name);
tensor_record *record_tensor_named(const schedules *s, const char *name); /* NULL: there is none */
void record_print(const kernel_record *k, sbuf *out);
void record_print_tensor(const tensor_record *t, sbuf *out);
void schedules_print_head(sbuf *out); /* the line of the version */
void schedules_print(const schedules *s, sbuf *out);
/* Reads a text; unwinds on errors, each with file, line and column. */
schedules *schedules_parse(ctx *c, const char *file, bytes text);
#endif
