/* values: arrays of Python as memory of inputs and outputs. What has Python's buffer protocol, fits in type and sizes
 * and is dense is used where it lies; everything else goes through _arrays.prepare, in Python. */
#include "core.h"
#include <string.h>

static ek_type type_of(const char *format, Py_ssize_t size) { /* 0: none of ours */
  char c = !format ? 'B' : *format == '<' || *format == '=' || *format == '@' ? format[1] : *format;
  if (format && format[*format == c ? 1 : 2]) return 0;
  switch (c) {
  case 'f':
    return EK_FLOAT;
  case 'd':
    return EK_DOUBLE;
  case 'e':
    return EK_FLOAT16;
  case '?':
    return EK_BOOL;
  case 'b':
  case 'h':
  case 'i':
  case 'l':
  case 'q':
    return size == 1 ? EK_INT8 : size == 2 ? EK_INT16 : size == 4 ? EK_INT32 : EK_INT64;
  case 'B':
  case 'H':
  case 'I':
  case 'L':
  case 'Q':
    return size == 1 ? EK_UINT8 : size == 2 ? EK_UINT16 : size == 4 ? EK_UINT32 : EK_UINT64;
  default:
    return 0;
  }
}
static bool from_view(value *out) {
  const Py_buffer *v = &out->view;
  if (v->ndim > EK_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "an array of rank %d: at most %d is possible", v->ndim, EK_MAX_RANK);
    return false;
  }
  out->data = v->buf, out->rank = v->ndim;
  for (int i = 0; i < v->ndim; i++) out->dims[i] = v->shape[i];
  return true;
}
/* 1: o lies in *out as t needs it; 0: it does not */
static int direct(const tensor *t, PyObject *o, int flags, value *out) {
  if (!PyObject_CheckBuffer(o)) return 0;
  if (PyObject_GetBuffer(o, &out->view, flags)) {
    PyErr_Clear();
    out->view.obj = NULL;
    return 0;
  }
  if (type_of(out->view.format, out->view.itemsize) == t->type && from_view(out)) return 1;
  PyErr_Clear();
  value_release(out);
  return 0;
}
bool value_input(const tensor *t, PyObject *o, value *out) {
  out->view.obj = NULL, out->end = NULL;
  if (!t->text) {
    if (direct(t, o, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT, out)) return true;
    int r = dlpack_input(t, o, out);
    if (r) return r > 0;
  }
  PyObject *f = helper("prepare");
  PyObject *array =
      f ? PyObject_CallFunction(f, "OOsiO", o, t->name, ek_type_name(t->type), t->text, t->dims_of) : NULL;
  if (!array) return false;
  bool good = !PyObject_GetBuffer(array, &out->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
  Py_DECREF(array); /* the buffer keeps it */
  if (!good) return out->view.obj = NULL, false;
  if (!from_view(out)) return value_release(out), false;
  return true;
}
static bool wrong_output(const tensor *t, const char *found) {
  PyErr_Format(PyExc_ValueError, "output '%U': a writable, dense array of type %s is expected, found %s", t->name,
               ek_type_name(t->type), found);
  return false;
}
bool value_output(const tensor *t, PyObject *o, const int64_t *dims, int32_t rank, value *out) {
  out->view.obj = NULL, out->end = NULL;
  PyObject *raw = Py_NewRef(o);
  if (t->view_type) { /* numpy does not hand out memory of such types */
    Py_DECREF(raw);
    if (!(raw = PyObject_CallMethod(o, "view", "O", t->dtype))) return false;
  }
  bool got = PyObject_CheckBuffer(raw) &&
             !PyObject_GetBuffer(raw, &out->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE);
  Py_DECREF(raw);
  if (!got) {
    PyErr_Clear();
    out->view.obj = NULL;
    return wrong_output(t, "one that is read-only, has gaps, or is no array");
  }
  ek_type type = type_of(out->view.format, out->view.itemsize);
  if (!t->view_type && type != t->type)
    return value_release(out), wrong_output(t, type ? ek_type_name(type) : "others");
  if (!from_view(out)) return value_release(out), false;
  if (out->rank != rank || memcmp(out->dims, dims, (size_t)rank * sizeof *dims)) {
    PyObject *want = PyTuple_New(rank);
    for (int32_t i = 0; want && i < rank; i++) PyTuple_SetItem(want, i, PyLong_FromLongLong(dims[i]));
    if (want) PyErr_Format(PyExc_ValueError, "output '%U': an array of shape %R is expected", t->name, want);
    Py_XDECREF(want);
    return value_release(out), false;
  }
  return true;
}
ek_type type_named(const char *name) {
  for (int t = EK_FLOAT; t <= EK_INT2; t++)
    if (!strcmp(ek_type_name((ek_type)t), name)) return (ek_type)t;
  return 0;
}
void value_release(value *v) {
  if (v->view.obj) PyBuffer_Release(&v->view);
  if (v->end) v->end(v->of);
  v->view.obj = NULL, v->end = NULL;
}
PyObject *value_new(const tensor *t, PyObject *shape, value *out) {
  out->view.obj = NULL, out->end = NULL;
  PyObject *empty = numpy_empty(), *a = empty ? PyObject_CallFunctionObjArgs(empty, shape, t->dtype, NULL) : NULL;
  if (!a) return NULL;
  if (PyObject_GetBuffer(a, &out->view, PyBUF_SIMPLE | PyBUF_WRITABLE)) {
    out->view.obj = NULL;
    return Py_DECREF(a), NULL;
  }
  out->data = out->view.buf;
  return a;
}
