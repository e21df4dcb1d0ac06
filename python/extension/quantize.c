/* quantize: a quantised model of an f32 one. ek_quantize, with samples from a list of Python. */
#include "core.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PATTERNS = 256 };
typedef struct sampling { /* what the library's callback needs */
  module_object *m;
  PyObject *samples; /* list of dicts: name -> array */
  value *held;       /* memory of the last sample */
} sampling;
static void let_go(sampling *s) {
  for (int32_t i = 0; i < s->m->nin; i++) value_release(&s->held[i]);
}
static int on_sample(void *user, size_t i, ek_array *inputs, size_t n) {
  sampling *s = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  bool good = !PyErr_Occurred() && n == (size_t)s->m->nin;
  let_go(s);
  PyObject *dict = good ? PyList_GetItem(s->samples, (Py_ssize_t)i) : NULL;
  good = dict && PyDict_Check(dict) && inputs_from(s->m->in, s->m->nin, dict, s->held, inputs);
  if (dict && !PyDict_Check(dict)) PyErr_Format(PyExc_TypeError, "sample %zu: a dict of arrays by name is expected", i);
  PyGILState_Release(gil);
  return !good;
}
static PyObject *layers_of(const ek_quantized *r) {
  PyObject *list = PyList_New((Py_ssize_t)r->layer_count);
  for (size_t i = 0; list && i < r->layer_count; i++) {
    const ek_quantized_layer *l = &r->layers[i];
    PyList_SetItem(list, (Py_ssize_t)i,
                   Py_BuildValue("(NNNNdddddd)", text_of(l->name), text_of(l->op), text_of(l->output), text_of(l->kept),
                                 l->sqnr, l->alone, l->macs, l->ms_before, l->ms_after, l->corrected));
  }
  return list;
}
static PyObject *outputs_of(const ek_quantized *r) {
  PyObject *dict = PyDict_New();
  for (size_t i = 0; dict && i < r->output_count; i++) {
    PyObject *x = Py_BuildValue("(ddd)", r->outputs[i].sqnr, r->outputs[i].changed, r->outputs[i].least);
    PyObject *name = text_of(r->outputs[i].name);
    if (x && name) PyDict_SetItem(dict, name, x);
    Py_XDECREF(x);
    Py_XDECREF(name);
  }
  return dict;
}
static PyObject *smoothed_of(const ek_quantized *r) {
  PyObject *list = PyList_New((Py_ssize_t)r->smoothed_count);
  for (size_t i = 0; list && i < r->smoothed_count; i++) {
    const ek_smoothed *x = &r->smoothed[i];
    PyList_SetItem(list, (Py_ssize_t)i,
                   Py_BuildValue("(NdN)", text_of(x->tensor), x->alpha, PyBool_FromLong(x->multiplied)));
  }
  return list;
}
static PyObject *quantized(module_object *m, ek_quantize_options *o, const char *path) {
  ek_quantized r;
  PyThreadState *held = PyEval_SaveThread();
  ek_code code = ek_quantize(m->m, o, path, &r);
  PyEval_RestoreThread(held);
  if (code || PyErr_Occurred()) return fail(code, ek_message(m->s));
  return Py_BuildValue("{sNsNsNsnsdsnsnsdsdsKsK}", "layers", layers_of(&r), "outputs", outputs_of(&r), "smoothed",
                       smoothed_of(&r), "quantized", (Py_ssize_t)r.quantized, "share", r.share, "observed",
                       (Py_ssize_t)r.observed, "compared", (Py_ssize_t)r.compared, "ms_before", r.ms_before, "ms_after",
                       r.ms_after, "bytes_before", (unsigned long long)r.bytes_before, "bytes_after",
                       (unsigned long long)r.bytes_after);
}
PyObject *module_quantize(PyObject *self, PyObject *args) {
  module_object *m = (module_object *)self;
  PyObject *dict, *samples, *exclude, *answer = NULL;
  const char *path, *patterns[MOST_PATTERNS + 1] = {NULL};
  int method, scheme;
  options compile;
  ek_quantize_options o;
  ek_quantize_options_init(&o);
  if (!PyArg_ParseTuple(args, "O!O!sidpO!ddpdp(iiipi)", &PyDict_Type, &dict, &PyList_Type, &samples, &path, &method,
                        &o.percentile, &o.per_channel, &PyList_Type, &exclude, &o.least_sqnr, &o.most_changed,
                        &o.only_faster, &o.smooth, &o.correct_bias, &scheme, &o.bits, &o.block_size, &o.zero_points,
                        &o.accuracy_level) ||
      !options_from(dict, &compile))
    return NULL;
  for (Py_ssize_t i = 0; i < PyList_Size(exclude); i++) {
    if (i == MOST_PATTERNS) return PyErr_SetString(PyExc_ValueError, "exclude: too many patterns"), NULL;
    if (!(patterns[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(exclude, i), NULL))) return NULL;
  }
  if (!session_take(m, "quantize")) return NULL;
  sampling s = {m, samples, calloc((size_t)m->nin + 1, sizeof(value))};
  o.options = &compile.o, o.samples = (size_t)PyList_Size(samples), o.sample = on_sample, o.sample_user = &s;
  o.method = (ek_quantize_method)method, o.scheme = (ek_quantize_scheme)scheme, o.exclude = patterns;
  if (!s.held)
    PyErr_NoMemory();
  else
    answer = quantized(m, &o, path), let_go(&s);
  free(s.held);
  session_give(m);
  return answer;
}
