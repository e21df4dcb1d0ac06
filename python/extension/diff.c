/* diff: which tensor of a model is wrong first? ek_diff, with the reference's values from a function of Python. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

typedef struct asking { /* what the library's callbacks need */
  PyObject *reference;  /* names -> [(type's name, array) or None]; NULL: none */
  PyObject *checked;    /* is told of each tensor; NULL: nobody is */
  Py_buffer *held;      /* memory of the last answer */
  size_t n;             /* how many of `held` */
} asking;
static void let_go(asking *a) {
  for (size_t i = 0; i < a->n; i++)
    if (a->held[i].obj) PyBuffer_Release(&a->held[i]);
  free(a->held);
  a->held = NULL, a->n = 0;
}
/* (type's name, dense array) as a value */
static bool take(PyObject *pair, Py_buffer *view, ek_array *to) {
  const char *type;
  PyObject *array;
  if (!PyArg_ParseTuple(pair, "sO", &type, &array)) return false;
  if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) return view->obj = NULL, false;
  if (view->ndim > EK_MAX_RANK) return true;
  to->type = type_named(type), to->rank = view->ndim, to->data = view->buf, to->bytes = (size_t)view->len;
  for (int i = 0; i < view->ndim; i++) to->dims[i] = view->shape[i];
  return true;
}
static bool ask(asking *a, const char *const *names, size_t n, ek_array *values) {
  PyObject *list = PyList_New((Py_ssize_t)n), *answer = NULL;
  bool good = list != NULL;
  for (size_t i = 0; i < n && good; i++) good = !PyList_SetItem(list, (Py_ssize_t)i, text_of(names[i]));
  if (good) answer = PyObject_CallFunctionObjArgs(a->reference, list, NULL);
  let_go(a);
  a->held = calloc(n + 1, sizeof *a->held);
  good = answer && a->held && PySequence_Size(answer) == (Py_ssize_t)n;
  for (; a->n < n && good; a->n++) {
    PyObject *pair = PySequence_GetItem(answer, (Py_ssize_t)a->n);
    good = pair && (pair == Py_None || take(pair, &a->held[a->n], &values[a->n]));
    Py_XDECREF(pair); /* the buffer keeps the array */
  }
  Py_XDECREF(list);
  Py_XDECREF(answer);
  return good;
}
static int on_reference(void *user, const char *const *names, size_t n, ek_array *values) {
  PyGILState_STATE gil = PyGILState_Ensure();
  const bool good = !PyErr_Occurred() && ask(user, names, n, values);
  PyGILState_Release(gil);
  return !good;
}
static void on_checked(void *user, const ek_checked *x) {
  asking *a = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  if (!PyErr_Occurred())
    Py_XDECREF(PyObject_CallFunction(a->checked, "NNNdNO", text_of(x->name), text_of(x->node), text_of(x->op), x->error,
                                     text_of(x->skipped), x->wrong ? Py_True : Py_False));
  PyGILState_Release(gil);
}

static PyObject *numbers(const int64_t *v, int32_t n) {
  PyObject *t = PyTuple_New(n);
  for (int32_t i = 0; t && i < n; i++) PyTuple_SetItem(t, i, PyLong_FromLongLong(v[i]));
  return t;
}
static PyObject *words(const char *const *v, size_t n) {
  PyObject *t = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; t && i < n; i++) PyTuple_SetItem(t, (Py_ssize_t)i, text_of(v[i]));
  return t;
}
static PyObject *result(const ek_difference *d) {
  static const char *const verdicts[] = {"same", "code", "reference"};
  return Py_BuildValue("{sssNsNsNsNsssNsNsLsLsdsdsdsnsnsNsNsK}", "verdict", verdicts[d->verdict], "tensor",
                       text_of(d->tensor), "node", text_of(d->node), "op", text_of(d->op), "why", text_of(d->why),
                       "type", ek_type_name(d->type), "shape", numbers(d->dims, d->rank), "place",
                       numbers(d->place, d->rank), "count", (long long)d->count, "wrong", (long long)d->wrong, "got",
                       d->got, "want", d->want, "allowed", d->allowed, "checked", (Py_ssize_t)d->checked, "skipped",
                       (Py_ssize_t)d->skipped, "part", words(d->part, d->part_nodes), "pass_name", text_of(d->pass),
                       "rewrite", (unsigned long long)d->rewrite);
}
static PyObject *compare(module_object *m, ek_diff_options *o, asking *a) {
  ek_difference d;
  PyThreadState *held = PyEval_SaveThread();
  ek_code code = ek_diff(m->m, o, &d);
  PyEval_RestoreThread(held);
  let_go(a);
  return code || PyErr_Occurred() ? fail(code, ek_message(m->s)) : result(&d);
}
bool inputs_from(const tensor *t, int32_t n, PyObject *dict, value *v, ek_array *to) {
  PyObject **by = calloc((size_t)n + 1, sizeof *by);
  bool good = by ? inputs_by_name(t, n, dict, by) : (PyErr_NoMemory(), false);
  for (int32_t i = 0; i < n && good; i++) {
    if (!(good = value_input(&t[i], by[i], &v[i]))) break;
    to[i] = (ek_array){.name = PyUnicode_AsUTF8AndSize(t[i].name, NULL),
                       .type = t[i].type,
                       .rank = v[i].rank,
                       .data = v[i].data,
                       .bytes = ek_type_bytes(t[i].type)};
    for (int32_t k = 0; k < v[i].rank; k++) to[i].dims[k] = v[i].dims[k], to[i].bytes *= (size_t)v[i].dims[k];
  }
  free(by);
  return good;
}
PyObject *module_diff(PyObject *self, PyObject *args) {
  module_object *m = (module_object *)self;
  PyObject *dict, *inputs, *reference, *checked, *answer = NULL;
  ek_diff_options o;
  options compile;
  ek_diff_options_init(&o);
  if (!PyArg_ParseTuple(args, "O!O!ddzpOO", &PyDict_Type, &dict, &PyDict_Type, &inputs, &o.rtol, &o.atol, &o.save,
                        &o.passes, &reference, &checked) ||
      !options_from(dict, &compile) || !session_take(m, "diff"))
    return NULL;
  value *v = calloc((size_t)m->nin + 1, sizeof *v);
  ek_array *arrays = calloc((size_t)m->nin + 1, sizeof *arrays);
  asking a = {reference == Py_None ? NULL : reference, checked == Py_None ? NULL : checked, NULL, 0};
  o.options = &compile.o, o.inputs = arrays, o.input_count = (size_t)m->nin;
  if (a.reference) o.reference = on_reference, o.reference_user = &a;
  if (a.checked) o.checked = on_checked, o.checked_user = &a;
  if (!v || !arrays)
    PyErr_NoMemory();
  else if (inputs_from(m->in, m->nin, inputs, v, arrays))
    answer = compare(m, &o, &a);
  for (int32_t i = 0; v && i < m->nin; i++) value_release(&v[i]);
  free(v), free(arrays);
  session_give(m);
  return answer;
}
