/* instance: random legal calls of a definition.
 *
 * A call (element types, shapes, attributes, contents) is guessed from the signature and the literals of the
 * body, and elaborated; what does not fit is no instance: try the next seed. The guesses are such that a legal
 * one is found among a few dozen for nearly every definition. The same seed gives the same call. For tests over
 * all definitions, for tables about operators.
 */
#ifndef EK_NOTATION_INSTANCE_H
#define EK_NOTATION_INSTANCE_H
#include "notation/notation.h"

enum { OPINST_MAX = 24 };
typedef struct opinst_opts {
  uint32_t types;   /* bits 1 << etype: types taken where a type variable allows one of them; 0: any */
  bool symbolic;    /* sizes are symbols named as in the signature; no data is made */
  uint32_t sizes;   /* the largest size guessed, half of them much smaller; 0: 6 */
  bool empty;       /* a size may be 0 */
  bool strings;     /* elements may be strings: their bytes are the contents, one axis more, zeros behind their ends */
  const char *node; /* name of the node, which numbers drawn at random follow from; NULL: "node" */
  /* tensors that the call may read: inputs take one of them where its type and shape fit what is known by then; the
   * others are made. Their shapes are numbers */
  const arg *offers;
  uint32_t noffers; /* number of entries in `offers` */
} opinst_opts;
typedef struct opinst {
  emodule *m;          /* module with the stages of the call */
  uint32_t nin;        /* number of inputs */
  uint32_t nattr;      /* number of attributes */
  uint32_t nout;       /* number of outputs */
  arg in[OPINST_MAX];  /* inputs */
  arg out[OPINST_MAX]; /* outputs; present: computed */
  /* contents of in[]; constants of the module where the definition wants their values, else module inputs */
  ndarray data[OPINST_MAX];
  int64_t low[OPINST_MAX], high[OPINST_MAX]; /* integers in data[] are from low to high */
  sattr attr[OPINST_MAX];                    /* attributes */
  uint32_t from[OPINST_MAX]; /* the input is this offer, from 1, and has no contents in data[]; 0: none */
} opinst;

/* False, without diagnostics: this seed gives no legal call. Everything lives in c. */
bool notation_instance(ctx *c, const oplib *lib, const opdef *d, uint64_t seed, opinst_opts o, opinst *out);
/* Draws the contents of the inputs anew: those in data[] that are neither constants nor strings. */
void notation_contents(ctx *c, uint64_t seed, opinst *o);
void opinst_print(ctx *c, const opdef *d, const opinst *i, sbuf *b); /* one line: NAME(f64[2, 3], [1, 0]; axis = 1) */
/* names of sizes as in the signature, and in the definition where a run finds them: n for n__17, m for node.m_4 */
const char *opinst_text(ctx *c, const char *formula);

/* What the stages of m cost, by the definitions, before any rewriting: arithmetic operations of elements (an addition,
 * a comparison, an exponential: one each), and bytes (inputs and outputs, once each). `cost flops = ..` and `cost bytes
 * = ..` of the definition called replace what follows from the stages. The texts leave products of sizes as they are:
 * 2*n*m*c*k0*(s0 - k0 + 1). */
typedef struct opcost {
  sz flops;               /* arithmetic operations */
  sz bytes;               /* bytes of inputs and outputs */
  const char *flops_text; /* flops as a formula */
  const char *bytes_text; /* bytes as a formula */
} opcost;
opcost opinst_cost(ctx *c, const opinst *i);
#endif
