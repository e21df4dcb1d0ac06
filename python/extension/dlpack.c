/* dlpack: tensors of other libraries without a copy, by DLPack (https://dmlc.github.io/dlpack): the capsules of its
 * version 1, "dltensor_versioned", and the older ones, "dltensor". Only memory that the CPU reads, dense and row-major:
 * the rest is left to _arrays.prepare. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

typedef struct dl_tensor { /* DLTensor */
  void *data;
  int32_t device_type, device_id; /* 1: CPU */
  int32_t rank;
  uint8_t code, bits; /* DLDataType */
  uint16_t lanes;
  int64_t *shape, *strides; /* strides in elements; NULL: dense */
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed { /* DLManagedTensor */
  dl_tensor t;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;
typedef struct dl_versioned { /* DLManagedTensorVersioned */
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags; /* 1: read only, 2: a copy */
  dl_tensor t;
} dl_versioned;
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6, READ_ONLY = 1, COPIED = 2 };
static const struct {
  ek_type type;
  uint8_t code, bits;
} types[] = {
    {EK_FLOAT, DL_FLOAT, 32}, {EK_DOUBLE, DL_FLOAT, 64},  {EK_FLOAT16, DL_FLOAT, 16}, {EK_BFLOAT16, DL_BFLOAT, 16},
    {EK_INT8, DL_INT, 8},     {EK_INT16, DL_INT, 16},     {EK_INT32, DL_INT, 32},     {EK_INT64, DL_INT, 64},
    {EK_UINT8, DL_UINT, 8},   {EK_UINT16, DL_UINT, 16},   {EK_UINT32, DL_UINT, 32},   {EK_UINT64, DL_UINT, 64},
    {EK_BOOL, DL_BOOL, 8},    {EK_FLOAT8E8M0, 14, 8},     {EK_FLOAT8E4M3FN, 10, 8},   {EK_FLOAT8E4M3FNUZ, 11, 8},
    {EK_FLOAT8E5M2, 12, 8},   {EK_FLOAT8E5M2FNUZ, 13, 8},
};

/* ---- in ---------------------------------------------------------------------------------------- */
static void end_managed(void *of) {
  dl_managed *m = of;
  if (m->deleter) m->deleter(m);
}
static void end_versioned(void *of) {
  dl_versioned *m = of;
  if (m->deleter) m->deleter(m);
}
static bool fits(const dl_tensor *d, ek_type type) {
  if (d->device_type != 1 || d->lanes != 1 || d->rank < 0 || d->rank > EK_MAX_RANK) return false;
  int64_t step = 1;
  for (int32_t i = d->rank; d->strides && i-- > 0; step *= d->shape[i])
    if (d->shape[i] > 1 && d->strides[i] != step) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].type == type) return d->code == types[i].code && d->bits == types[i].bits;
  return false;
}
static PyObject *capsule_of(PyObject *o) { /* NULL without an exception: there is none */
  PyObject *f = PyObject_GetAttrString(o, "__dlpack__"), *capsule = NULL;
  PyObject *none = f ? PyTuple_New(0) : NULL, *kw = f ? Py_BuildValue("{s(ii)}", "max_version", 1, 1) : NULL;
  if (none && kw) capsule = PyObject_Call(f, none, kw);
  if (none && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* it knows no versions */
    PyErr_Clear();
    capsule = PyObject_Call(f, none, NULL);
  }
  Py_XDECREF(kw);
  Py_XDECREF(none);
  Py_XDECREF(f);
  if (!capsule) PyErr_Clear(); /* not as memory of the CPU, or not this type: other ways are tried */
  return capsule;
}
int dlpack_input(const tensor *t, PyObject *o, value *out) {
  PyObject *capsule = capsule_of(o);
  if (!capsule) return 0;
  dl_tensor *d = NULL;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->major == 1) d = &m->t, out->end = end_versioned, out->of = m;
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    d = &m->t, out->end = end_managed, out->of = m;
  }
  bool good = d && fits(d, t->type);
  if (good) {
    PyCapsule_SetName(capsule, out->end == end_versioned ? "used_dltensor_versioned" : "used_dltensor");
    out->data = (char *)d->data + d->byte_offset, out->rank = d->rank;
    if (d->rank) memcpy(out->dims, d->shape, (size_t)d->rank * sizeof *d->shape);
  } else {
    out->end = NULL;
  }
  Py_DECREF(capsule);
  return good;
}

/* ---- out --------------------------------------------------------------------------------------- */
typedef struct exported { /* what a capsule keeps */
  union {
    dl_managed plain;
    dl_versioned versioned;
  } m;
  Py_buffer view;
  int64_t shape[EK_MAX_RANK];
} exported;
static void free_exported(exported *e) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(&e->view);
  PyGILState_Release(gil);
  free(e);
}
static void delete_managed(dl_managed *m) { free_exported(m->context); }
static void delete_versioned(dl_versioned *m) { free_exported(m->context); }
static void unused(PyObject *capsule) { /* nobody took the tensor out of it */
  const char *name = PyCapsule_GetName(capsule);
  if (name && !strcmp(name, "dltensor_versioned")) delete_versioned(PyCapsule_GetPointer(capsule, name));
  if (name && !strcmp(name, "dltensor")) delete_managed(PyCapsule_GetPointer(capsule, name));
}
PyObject *dlpack_export(PyObject *self, PyObject *args) {
  PyObject *array;
  const char *type;
  int versioned, copied;
  if (!PyArg_ParseTuple(args, "Ospp", &array, &type, &versioned, &copied)) return NULL;
  (void)self;
  exported *e = calloc(1, sizeof *e);
  if (!e) return PyErr_NoMemory();
  if (PyObject_GetBuffer(array, &e->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) return free(e), NULL;
  dl_tensor t = {.data = e->view.buf, .device_type = 1, .rank = e->view.ndim, .lanes = 1, .shape = e->shape};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(ek_type_name(types[i].type), type)) t.code = types[i].code, t.bits = types[i].bits;
  if (!t.bits || t.rank > EK_MAX_RANK) {
    PyErr_Format(PyExc_BufferError, "DLPack has no type for %s", type);
    PyBuffer_Release(&e->view);
    return free(e), NULL;
  }
  for (int32_t i = 0; i < t.rank; i++) e->shape[i] = e->view.shape[i];
  if (versioned) {
    uint64_t flags = (e->view.readonly ? READ_ONLY : 0) | (copied ? COPIED : 0);
    e->m.versioned = (dl_versioned){1, 1, e, delete_versioned, flags, t};
    return PyCapsule_New(&e->m, "dltensor_versioned", unused);
  }
  e->m.plain = (dl_managed){t, e, delete_managed};
  return PyCapsule_New(&e->m, "dltensor", unused);
}
