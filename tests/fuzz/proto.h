/* proto: ONNX files as trees of fields, to be changed and written again (proto.c). Unlike the reader under test it
 * knows nothing of what fields mean, but which of them are messages, numbers, lists and texts. */
#ifndef EK_TESTS_PROTO_H
#define EK_TESTS_PROTO_H
#include "fuzz.h"

typedef enum {
  M_NONE,
  M_MODEL,
  M_GRAPH,
  M_NODE,
  M_ATTR,
  M_TENSOR,
  M_SPARSE,
  M_VALUE,
  M_TYPE,
  M_TENSOR_TYPE,
  M_SHAPE,
  M_DIM,
  M_ELEM,
  M_MAP,
  M_OPSET,
  M_FUNCTION,
  M_PAIR
} message;
typedef enum { F_UNKNOWN, F_INT, F_FLOAT, F_TEXT, F_RAW, F_INTS, F_FLOATS, F_DOUBLES, F_MSG } field_kind;
typedef struct pfield {
  uint32_t no, wire;
  field_kind kind;
  message in, sub; /* the message it stands in; what it holds (F_MSG) */
  uint64_t v;      /* wire 0, 1, 5 */
  uint8_t *p;      /* wire 2, but messages */
  size_t n;
  struct pfield **kids;
  uint32_t nkids;
  struct pfield *up;
} pfield;

/* All memory is of one region that the next proto_read with fresh = true takes over. NULL when the bytes are no
 * message. */
pfield *proto_read(const uint8_t *p, size_t n, message as, bool fresh);
size_t proto_write(const pfield *root, uint8_t *out, size_t cap); /* 0: does not fit */
bool proto_mutate(pfield *root, dice *d);                         /* one change; false: found nothing to change */
/* a message of `from` takes the place of one of its kind, or stands beside it */
bool proto_cross(pfield *into, const pfield *from, dice *d);
/* For targets that read models: proto_change changes fields, and now and then bytes, as fuzz_change does; proto_join
 * crosses two models. 0: p is no model. */
size_t proto_change(uint8_t *p, size_t n, size_t cap, unsigned seed);
size_t proto_join(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap, unsigned seed);
#endif
