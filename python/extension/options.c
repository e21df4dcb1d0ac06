/* options: the dict of options that einkorn.compile makes, as ek_options. Its texts are borrowed from the dict. */
#include "core.h"

bool option_number(PyObject *dict, const char *key, uint64_t *out) {
  PyObject *v = PyDict_GetItemString(dict, key);
  if (!v || v == Py_None) return true;
  unsigned long long n = PyLong_AsUnsignedLongLong(v);
  if (n == (unsigned long long)-1 && PyErr_Occurred()) {
    PyErr_Format(PyExc_ValueError, "%s=%R: a number of 0 or more is expected", key, v);
    return false;
  }
  *out = n;
  return true;
}
static bool option_int(PyObject *dict, const char *key, int *out) {
  uint64_t n = (uint64_t)*out;
  if (!option_number(dict, key, &n)) return false;
  if (n > 1000000) {
    PyErr_Format(PyExc_ValueError, "%s=%llu is too large", key, (unsigned long long)n);
    return false;
  }
  *out = (int)n;
  return true;
}
const char *option_text(PyObject *dict, const char *key) {
  PyObject *v = PyDict_GetItemString(dict, key);
  return !v || v == Py_None ? NULL : PyUnicode_AsUTF8AndSize(v, NULL);
}
const char *const *option_texts(PyObject *dict, const char *key, const char **room, Py_ssize_t most) {
  PyObject *v = PyDict_GetItemString(dict, key);
  if (!v || v == Py_None) return NULL;
  Py_ssize_t n = PyList_Size(v);
  if (n < 0) return NULL;
  if (n > most) return PyErr_Format(PyExc_ValueError, "%s: at most %zd are possible", key, most), NULL;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(room[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(v, i), NULL))) return NULL;
  room[n] = NULL;
  return n ? room : NULL;
}
bool options_from(PyObject *dict, options *out) {
  ek_options *o = &out->o;
  ek_options_init(o);
  int accuracy = 0, precision = 0, codegen = 0;
  if (!option_int(dict, "optimize", &o->optimize) || !option_int(dict, "threads", &o->threads) ||
      !option_int(dict, "compile_threads", &o->compile_threads) || !option_int(dict, "accuracy", &accuracy) ||
      !option_int(dict, "precision", &precision) || !option_int(dict, "codegen", &codegen) ||
      !option_int(dict, "evaluate", &o->evaluate) || !option_int(dict, "profile", &o->profile) ||
      !option_int(dict, "unchecked", &o->unchecked) || !option_int(dict, "reproducible", &o->reproducible) ||
      !option_number(dict, "memory_limit", &o->memory_limit))
    return false;
  o->accuracy = (ek_accuracy)accuracy, o->precision = (ek_precision)precision, o->codegen = (ek_codegen)codegen;
  o->target = option_text(dict, "target");
  o->cache = option_text(dict, "cache");
  o->schedule = option_text(dict, "schedule"), o->schedule_name = option_text(dict, "schedule_name");
  o->dims = option_texts(dict, "dims", out->dims, 64);
  o->watch = option_texts(dict, "watch", out->watch, 256);
  o->states = option_texts(dict, "states", out->states, 256);
  return !PyErr_Occurred();
}
