/* call: running a module. A context is a run of the library and what is bound to it; a module keeps the contexts that
 * no call uses, so that calls side by side, from several threads, have one each and a later call makes none.
 *
 * Arrays are used where they lie, inputs and outputs. Sizes that only a run finds: an output is made as large as they
 * can be, and cut afterwards; where that was more than needed once, later runs copy it out of the run's own memory. */
#include "core.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct slot { /* an input or output of a context */
  int32_t rank;
  bool shaped; /* input: the run knows these sizes */
  bool held;   /* v is held */
  bool given;  /* output: array is the caller's */
  int64_t dims[EK_MAX_RANK];
  PyObject *shape; /* output: dims as a tuple, or NULL */
  PyObject *array; /* output: what is bound, or NULL */
  value v;
} slot;
struct context {
  context *next; /* of the spare ones */
  ek_run *r;
  bool prepared; /* for the sizes of the inputs */
  double ms;     /* the last run took so long; -1: none was */
  slot *in, *out;
};

/* ---- contexts ---------------------------------------------------------------------------------- */
static void context_release(module_object *m, context *x) { /* gives the arrays back */
  for (int32_t i = 0; i < m->nin; i++)
    if (x->in[i].held) value_release(&x->in[i].v), x->in[i].held = false;
  for (int32_t i = 0; i < m->nout; i++) {
    if (x->out[i].held) value_release(&x->out[i].v), x->out[i].held = false;
    Py_CLEAR(x->out[i].array);
  }
}
static void context_free(module_object *m, context *x) {
  context_release(m, x);
  for (int32_t i = 0; i < m->nout; i++) Py_XDECREF(x->out[i].shape);
  ek_run_destroy(x->r);
  free(x->in);
  free(x->out);
  free(x);
}
void contexts_free(module_object *m) {
  for (context *x; (x = m->spare);) {
    m->spare = x->next;
    context_free(m, x);
  }
}
static context *context_new(module_object *m) {
  context *x = calloc(1, sizeof *x);
  if (x) x->in = calloc((size_t)m->nin + 1, sizeof *x->in), x->out = calloc((size_t)m->nout + 1, sizeof *x->out);
  if (!x || !x->in || !x->out) {
    if (x) free(x->in), free(x->out), free(x);
    PyErr_NoMemory();
    return NULL;
  }
  x->ms = -1;
  ek_code code = ek_run_create(m->code, 0, &x->r);
  if (!code) return x;
  fail(code, code == EK_MEMORY ? "out of memory" : "no run of this module can be made");
  context_free(m, x);
  return NULL;
}
/* Where there are states all calls share one context, with whose states each goes on. */
static context *context_take(module_object *m) {
  if (m->taken) {
    PyErr_SetString(PyExc_RuntimeError,
                    "another thread runs this module, and its calls share their states: bind() makes a callable with "
                    "states of its own");
    return NULL;
  }
  if (!module_enter(m)) return NULL;
  context *x = m->spare;
  if (x)
    m->spare = x->next;
  else if (!(x = context_new(m)))
    module_leave(m);
  m->taken = x && m->nstate;
  return x;
}
static void context_give(module_object *m, context *x) {
  context_release(m, x);
  x->next = m->spare;
  m->spare = x;
  m->taken = false;
  module_leave(m);
}
/* For a Bound: of a module with states one of its own. */
static context *context_own(module_object *m) {
  if (!m->nstate) return context_take(m);
  if (!module_enter(m)) return NULL;
  context *x = context_new(m);
  if (!x) module_leave(m);
  return x;
}
static void context_disown(module_object *m, context *x) {
  if (!m->nstate) {
    context_give(m, x);
    return;
  }
  context_free(m, x);
  module_leave(m);
}

/* ---- inputs and outputs ------------------------------------------------------------------------ */
static void *run_failed(context *x, ek_code code) { return fail(code, ek_run_message(x->r)); }
static bool bind_input(module_object *m, context *x, int32_t i, PyObject *o) {
  slot *s = &x->in[i];
  if (!value_input(&m->in[i], o, &s->v)) return false;
  s->held = true;
  const value *v = &s->v;
  if (!s->shaped || s->rank != v->rank || memcmp(s->dims, v->dims, (size_t)v->rank * sizeof *v->dims)) {
    ek_code code = ek_run_shape(x->r, i, v->dims, v->rank);
    s->shaped = !code, x->prepared = false;
    if (code) return run_failed(x, code);
    s->rank = v->rank;
    memcpy(s->dims, v->dims, sizeof s->dims);
  }
  ek_code code = ek_run_bind_input(x->r, i, v->data);
  return !code || run_failed(x, code);
}
static PyObject *dims_tuple(const int64_t *dims, int32_t rank) {
  PyObject *t = PyTuple_New(rank);
  for (int32_t i = 0; t && i < rank; i++) {
    PyObject *n = PyLong_FromLongLong(dims[i]);
    if (!n || PyTuple_SetItem(t, i, n)) Py_CLEAR(t);
  }
  return t;
}
static bool prepare(module_object *m, context *x) {
  if (x->prepared) return true;
  PyThreadState *held = PyEval_SaveThread();
  ek_code code = ek_run_prepare(x->r);
  PyEval_RestoreThread(held);
  if (code) return run_failed(x, code);
  for (int32_t i = 0; i < m->nout; i++) {
    slot *s = &x->out[i];
    ek_run_output_dims(x->r, i, s->dims, &s->rank);
    PyObject *shape = s->rank < 0 ? Py_NewRef(Py_None) : dims_tuple(s->dims, s->rank);
    if (!shape) return false;
    replace(&s->shape, shape);
  }
  x->prepared = true;
  return true;
}
static size_t bytes_for(const int64_t *dims, int32_t rank, ek_type type) {
  size_t n = ek_type_bytes(type);
  for (int32_t i = 0; i < rank; i++) n *= (size_t)dims[i];
  return n;
}
static size_t bytes_of(const value *v, ek_type type) { return bytes_for(v->dims, v->rank, type); }
/* An array is made where the sizes known before the run are enough: what nothing bounds may take what earlier runs
 * needed, and comes out of the run's own memory. */
static bool bind_output(module_object *m, context *x, int32_t i, PyObject *given) {
  tensor *t = &m->out[i];
  slot *s = &x->out[i];
  void *data = NULL;
  s->given = given != NULL;
  if (given) {
    if (!value_output(t, given, s->dims, s->rank, &s->v)) return false;
    s->array = Py_NewRef(given);
  } else if (!t->late && s->shape != Py_None &&
             (t->fixed || (bytes_for(s->dims, s->rank, t->type) > 0 &&
                           ek_run_output_bytes(x->r, i) <= bytes_for(s->dims, s->rank, t->type)))) {
    if (!(s->array = value_new(t, s->shape, &s->v))) return false;
  }
  if (s->array) s->held = true, data = s->v.data;
  ek_tensor_info info;
  ek_module_output(m->code, i, &info); /* the name as the library has it, which need not be UTF-8 */
  ek_code code =
      given ? ek_run_set_output(x->r, info.name, data, bytes_of(&s->v, t->type)) : ek_run_bind_output(x->r, i, data);
  return !code || run_failed(x, code);
}
static bool overlap(const value *a, size_t an, const value *b, size_t bn) {
  const char *p = a->data, *q = b->data;
  return an && bn && p < q + bn && q < p + an;
}
static bool apart(module_object *m, context *x, int32_t i) { /* output i and other arrays of the call */
  slot *s = &x->out[i];
  size_t n = bytes_of(&s->v, m->out[i].type);
  PyObject *other = NULL;
  for (int32_t k = 0; k < m->nin && !other; k++)
    if (overlap(&s->v, n, &x->in[k].v, bytes_of(&x->in[k].v, m->in[k].type))) other = m->in[k].name;
  for (int32_t k = 0; k < i && !other; k++)
    if (x->out[k].held && overlap(&s->v, n, &x->out[k].v, bytes_of(&x->out[k].v, m->out[k].type)))
      other = m->out[k].name;
  if (other) PyErr_Format(PyExc_ValueError, "output '%U' shares memory with '%U'", m->out[i].name, other);
  return !other;
}
static bool bind_all(module_object *m, context *x, PyObject *const *in, PyObject *const *out) {
  for (int32_t i = 0; i < m->nin; i++)
    if (!bind_input(m, x, i, in[i])) return false;
  if (!prepare(m, x)) return false;
  for (int32_t i = 0; i < m->nout; i++)
    if (!bind_output(m, x, i, out ? out[i] : NULL)) return false;
  for (int32_t i = 0; i < m->nout && out; i++)
    if (out[i] && !apart(m, x, i)) return false;
  return true;
}

/* ---- Ctrl-C ------------------------------------------------------------------------------------ */
/* Python's handler of SIGINT only notes the signal until the main thread executes Python again. A run that may take
 * long is cancelled as well. Only the main thread of the process does this, so that there is one run at a time. */
enum { LONG_MS = 20 };
static ek_run *volatile cancelled_by_signal;
static struct sigaction python_handler;
static void on_interrupt(int signal, siginfo_t *info, void *where) {
  ek_run *r = cancelled_by_signal;
  if (r) ek_run_cancel(r);
  if (python_handler.sa_flags & SA_SIGINFO)
    python_handler.sa_sigaction(signal, info, where);
  else
    python_handler.sa_handler(signal);
}
static bool watch_interrupt(ek_run *r) {
  struct sigaction ours = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (syscall(SYS_gettid) != getpid() || sigaction(SIGINT, NULL, &python_handler)) return false;
  if (!(python_handler.sa_flags & SA_SIGINFO) &&
      (python_handler.sa_handler == SIG_DFL || python_handler.sa_handler == SIG_IGN))
    return false;
  sigemptyset(&ours.sa_mask);
  cancelled_by_signal = r;
  return !sigaction(SIGINT, &ours, NULL);
}
static void unwatch_interrupt(void) {
  sigaction(SIGINT, &python_handler, NULL);
  cancelled_by_signal = NULL;
}

/* ---- executing --------------------------------------------------------------------------------- */
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
static ek_code timed(context *x) {
  PyThreadState *held = PyEval_SaveThread();
  bool watched = (x->ms < 0 || x->ms > LONG_MS) && watch_interrupt(x->r);
  double t = now_ms();
  ek_code code = ek_run_execute(x->r);
  x->ms = now_ms() - t;
  if (watched) unwatch_interrupt();
  PyEval_RestoreThread(held);
  return code;
}
/* An output was larger than the sizes before the run said: once more, with all such outputs in the run's memory. */
static bool unbind_open(module_object *m, context *x) {
  bool any = false;
  for (int32_t i = 0; i < m->nout; i++) {
    slot *s = &x->out[i];
    if (m->out[i].fixed || !s->array) continue;
    value_release(&s->v);
    s->held = false;
    Py_CLEAR(s->array);
    ek_run_bind_output(x->r, i, NULL);
    any = m->out[i].late = true;
  }
  return any;
}
static bool execute(module_object *m, context *x, bool own_outputs) {
  ek_code code = timed(x);
  if (code == EK_MEMORY && own_outputs && unbind_open(m, x)) code = timed(x);
  return !code || run_failed(x, code);
}
/* what output i came to, as an array; a new reference */
static PyObject *result(module_object *m, context *x, int32_t i) {
  tensor *t = &m->out[i];
  slot *s = &x->out[i];
  PyObject *array = s->array ? Py_NewRef(s->array) : NULL, *f;
  if (!t->fixed || !array) {
    int64_t dims[EK_MAX_RANK];
    int32_t rank;
    ek_code code = ek_run_output_dims(x->r, i, dims, &rank);
    if (code) return run_failed(x, code);
    bool same = array && rank == s->rank && !memcmp(dims, s->dims, (size_t)rank * sizeof *dims);
    PyObject *shape = same ? NULL : dims_tuple(dims, rank);
    if (!same && !shape) return Py_XDECREF(array), NULL;
    if (!array) {
      value v;
      if (!(array = value_new(t, shape, &v))) return Py_DECREF(shape), NULL;
      size_t n = ek_type_bytes(t->type);
      for (int32_t d = 0; d < rank; d++) n *= (size_t)dims[d];
      if (n) memcpy(v.data, ek_run_output_data(x->r, i), n);
      value_release(&v);
    } else if (!same) {
      t->late = true;
      replace(&array, (f = helper("cut")) ? PyObject_CallFunctionObjArgs(f, array, shape, NULL) : NULL);
    }
    Py_XDECREF(shape);
  }
  if (array && t->view_type && !s->given) replace(&array, PyObject_CallMethod(array, "view", "O", t->view_type));
  if (array && t->text) replace(&array, (f = helper("texts")) ? PyObject_CallFunctionObjArgs(f, array, NULL) : NULL);
  return array;
}

/* ---- arguments --------------------------------------------------------------------------------- */
static PyObject *names_of(const tensor *t, int32_t n) {
  PyObject *list = PyList_New(n), *comma = PyUnicode_FromString(", "), *all = NULL;
  for (int32_t i = 0; list && i < n; i++) PyList_SetItem(list, i, Py_NewRef(t[i].name));
  if (list && comma) all = PyUnicode_Join(comma, list);
  Py_XDECREF(list);
  Py_XDECREF(comma);
  return all;
}
static bool wrong_name(const char *what, PyObject *name, const tensor *t, int32_t n) {
  PyObject *all = names_of(t, n);
  if (all) PyErr_Format(PyExc_ValueError, "%s %R: there is none of that name; the %ss are %U", what, name, what, all);
  Py_XDECREF(all);
  return false;
}
/* values of a dict by the names of tensors, borrowed; those that it has not stay as they are */
static bool by_name(const char *what, PyObject *dict, const tensor *t, int32_t n, PyObject **out) {
  Py_ssize_t at = 0, found = 0;
  PyObject *key, *v;
  for (int32_t i = 0; i < n; i++) {
    v = PyDict_GetItemWithError(dict, t[i].name);
    if (!v && PyErr_Occurred()) return false;
    if (v && out[i]) {
      PyErr_Format(PyExc_TypeError, "%s '%U' is given twice", what, t[i].name);
      return false;
    }
    if (v) out[i] = v, found++;
  }
  if (found == PyDict_Size(dict)) return true;
  while (PyDict_Next(dict, &at, &key, &v)) {
    bool known = false;
    for (int32_t i = 0; i < n && !known; i++) known = PyUnicode_Compare(key, t[i].name) == 0;
    if (PyErr_Occurred()) return false;
    if (!known) return wrong_name(what, key, t, n);
  }
  return true;
}
static bool all_given(const tensor *t, int32_t n, PyObject *const *in) {
  for (int32_t i = 0; i < n; i++)
    if (!in[i]) {
      PyObject *all = names_of(t, n);
      if (all) PyErr_Format(PyExc_TypeError, "input '%U' is missing; the inputs are %U", t[i].name, all);
      Py_XDECREF(all);
      return false;
    }
  return true;
}
bool inputs_by_name(const tensor *t, int32_t n, PyObject *dict, PyObject **out) {
  return by_name("input", dict, t, n, out) && all_given(t, n, out);
}
enum { SMALL = 32 };
typedef struct arguments { /* borrowed arrays by position */
  PyObject **in, **out;
  PyObject *room[SMALL];
} arguments;
static bool arguments_begin(module_object *m, arguments *a) {
  size_t n = (size_t)m->nin + (size_t)m->nout;
  a->in = n <= SMALL ? memset(a->room, 0, sizeof a->room) : calloc(n, sizeof *a->in);
  if (!a->in) return PyErr_NoMemory(), false;
  a->out = a->in + m->nin;
  return true;
}
static void arguments_end(arguments *a) {
  if (a->in != a->room) free(a->in);
}
static bool arguments_dicts(module_object *m, PyObject *args, PyObject *kwargs, arguments *a, bool *given) {
  static char *names[] = {"inputs", "out", NULL};
  PyObject *in, *out = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O", names, &PyDict_Type, &in, &out)) return false;
  *given = out && out != Py_None;
  if (*given && !PyDict_Check(out)) return PyErr_SetString(PyExc_TypeError, "out: a dict by name is expected"), false;
  return inputs_by_name(m->in, m->nin, in, a->in) && (!*given || by_name("output", out, m->out, m->nout, a->out));
}
static PyObject *results_tuple(module_object *m, context *x) {
  PyObject *all = PyTuple_New(m->nout);
  for (int32_t i = 0; all && i < m->nout; i++) {
    PyObject *o = result(m, x, i);
    if (!o || PyTuple_SetItem(all, i, o)) Py_CLEAR(all);
  }
  return all;
}
static PyObject *results_dict(module_object *m, context *x) {
  PyObject *all = PyDict_New();
  for (int32_t i = 0; all && i < m->nout; i++) {
    PyObject *o = result(m, x, i);
    if (!o || PyDict_SetItem(all, m->out[i].name, o)) Py_CLEAR(all);
    Py_XDECREF(o);
  }
  return all;
}
static PyObject *run(module_object *m, const arguments *a, bool given, bool dict) {
  context *x = context_take(m);
  PyObject *all = NULL;
  if (!x) return NULL;
  if (bind_all(m, x, a->in, given ? a->out : NULL) && execute(m, x, !given))
    all = dict ? results_dict(m, x) : m->nout == 1 ? result(m, x, 0) : results_tuple(m, x);
  context_give(m, x);
  return all;
}
/* set_tracing(type, function): a call with arguments of this type is function(module, arguments, keywords) */
static PyObject *traced_type, *traced_call;
PyObject *set_tracing(PyObject *self, PyObject *args) {
  PyObject *type, *function;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &type, &function)) return NULL;
  replace(&traced_type, Py_NewRef(type)), replace(&traced_call, Py_NewRef(function));
  Py_RETURN_NONE;
}
static bool any_traced(PyObject *args, PyObject *kwargs) {
  PyObject *key, *v;
  bool found = false;
  for (Py_ssize_t i = PyTuple_Size(args); i-- > 0;)
    found |= (PyObject *)Py_TYPE(PyTuple_GetItem(args, i)) == traced_type;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &v);) found |= (PyObject *)Py_TYPE(v) == traced_type;
  return found;
}
PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
  module_object *m = (module_object *)self;
  Py_ssize_t n = PyTuple_Size(args);
  if (any_traced(args, kwargs))
    return PyObject_CallFunctionObjArgs(traced_call, self, args, kwargs ? kwargs : Py_None, NULL);
  arguments a;
  PyObject *all = NULL;
  if (n > m->nin) {
    PyErr_Format(PyExc_TypeError, "%zd arrays for %d inputs", n, (int)m->nin);
    return NULL;
  }
  if (!arguments_begin(m, &a)) return NULL;
  for (Py_ssize_t i = 0; i < n; i++) a.in[i] = PyTuple_GetItem(args, i);
  if ((!kwargs || by_name("input", kwargs, m->in, m->nin, a.in)) && all_given(m->in, m->nin, a.in))
    all = run(m, &a, false, false);
  arguments_end(&a);
  return all;
}
PyObject *module_run(PyObject *self, PyObject *args, PyObject *kwargs) {
  module_object *m = (module_object *)self;
  arguments a;
  bool given;
  if (!arguments_begin(m, &a)) return NULL;
  PyObject *all = arguments_dicts(m, args, kwargs, &a, &given) ? run(m, &a, given, true) : NULL;
  arguments_end(&a);
  return all;
}
/* _profile(inputs) -> (outputs by name, a dict for each kernel); of a module that was compiled with profile=1 */
PyObject *module_profile(PyObject *self, PyObject *inputs) {
  module_object *m = (module_object *)self;
  arguments a;
  PyObject *list = NULL, *both = NULL;
  if (!PyDict_Check(inputs)) return PyErr_SetString(PyExc_TypeError, "inputs: a dict by name is expected"), NULL;
  if (!arguments_begin(m, &a)) return NULL;
  context *x = inputs_by_name(m->in, m->nin, inputs, a.in) ? context_take(m) : NULL;
  if (x && bind_all(m, x, a.in, NULL) && execute(m, x, true)) {
    const ek_kernel *k;
    size_t n;
    ek_code code = ek_run_kernels(x->r, &k, &n);
    list = code ? run_failed(x, code) : PyList_New(0);
    for (size_t i = 0; list && i < n; i++, k++) {
      PyObject *row =
          Py_BuildValue("{sNsssNsNsNsNsOsdsdsdsKsd}", "name", text_of(k->name), "kind", k->kind, "tensors",
                        text_of(k->tensors), "nodes", text_of(k->nodes), "how", text_of(k->how), "apart",
                        text_of(k->apart), "parallel", k->parallel ? Py_True : Py_False, "ops", k->ops, "weight_bytes",
                        k->weight_bytes, "bytes", k->bytes, "starts", (unsigned long long)k->starts, "ms", k->ms);
      if (!row || PyList_Append(list, row)) Py_CLEAR(list);
      Py_XDECREF(row);
    }
  }
  if (list) both = Py_BuildValue("(NN)", results_dict(m, x), list); /* takes both; NULL where one is */
  if (x) context_give(m, x);
  arguments_end(&a);
  return both;
}

/* ---- Bound: arrays that stay bound -------------------------------------------------------------- */
typedef struct bound_object {
  PyObject_HEAD module_object *m;
  context *x;
  bool given; /* by the caller: outputs; else they are ours */
  bool busy;
  PyObject *outputs; /* tuple of arrays */
  bool steady;       /* outputs are the same arrays after each run */
} bound_object;
PyObject *bound_type;
PyObject *module_bind(PyObject *self, PyObject *args, PyObject *kwargs) {
  module_object *m = (module_object *)self;
  arguments a;
  allocfunc alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)bound_type, Py_tp_alloc);
  if (!arguments_begin(m, &a)) return NULL;
  bound_object *b = (bound_object *)alloc((PyTypeObject *)bound_type, 0);
  if (b) {
    b->m = (module_object *)Py_NewRef(self);
    if (!arguments_dicts(m, args, kwargs, &a, &b->given) || !(b->x = context_own(m)) ||
        !bind_all(m, b->x, a.in, b->given ? a.out : NULL))
      Py_CLEAR(b);
  }
  if (b) {
    b->steady = true;
    for (int32_t i = 0; i < m->nout; i++) b->steady &= m->out[i].fixed && !m->out[i].text;
  }
  arguments_end(&a);
  return (PyObject *)b;
}
static PyObject *bound_call(PyObject *self, PyObject *args, PyObject *kwargs) {
  bound_object *b = (bound_object *)self;
  if (PyTuple_Size(args) || (kwargs && PyDict_Size(kwargs)))
    return PyErr_SetString(PyExc_TypeError, "bound arrays: a call has no arguments"), NULL;
  if (b->busy) return PyErr_SetString(PyExc_RuntimeError, "another thread runs these bound arrays"), NULL;
  b->busy = true;
  bool good = execute(b->m, b->x, !b->given);
  b->busy = false;
  if (!good) return NULL;
  if (!b->outputs || !b->steady) {
    PyObject *all = results_tuple(b->m, b->x);
    if (!all) return NULL;
    replace(&b->outputs, all);
  }
  return b->m->nout == 1 ? Py_NewRef(PyTuple_GetItem(b->outputs, 0)) : Py_NewRef(b->outputs);
}
static void bound_dealloc(PyObject *self) {
  bound_object *b = (bound_object *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (b->x) context_disown(b->m, b->x);
  Py_XDECREF((PyObject *)b->m);
  Py_XDECREF(b->outputs);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}
/* ---- states --------------------------------------------------------------------------------------- */
PyObject *module_reset(PyObject *self, PyObject *args) {
  module_object *m = (module_object *)self;
  context *x = context_take(m);
  if (!x) return NULL;
  PyObject *done = states_reset(x->r, args);
  context_give(m, x);
  return done;
}
PyObject *module_snapshot(PyObject *self, PyObject *none) {
  module_object *m = (module_object *)self;
  (void)none;
  context *x = context_take(m);
  if (!x) return NULL;
  PyObject *all = states_snapshot(m, x->r);
  context_give(m, x);
  return all;
}
PyObject *module_restore(PyObject *self, PyObject *dict) {
  module_object *m = (module_object *)self;
  context *x = context_take(m);
  if (!x) return NULL;
  PyObject *done = states_restore(m, x->r, dict);
  context_give(m, x);
  return done;
}
static bool bound_free(const bound_object *b) {
  if (b->busy) PyErr_SetString(PyExc_RuntimeError, "another thread runs these bound arrays");
  return !b->busy;
}
static PyObject *bound_reset(PyObject *self, PyObject *args) {
  bound_object *b = (bound_object *)self;
  return bound_free(b) ? states_reset(b->x->r, args) : NULL;
}
static PyObject *bound_snapshot(PyObject *self, PyObject *none) {
  bound_object *b = (bound_object *)self;
  (void)none;
  return bound_free(b) ? states_snapshot(b->m, b->x->r) : NULL;
}
static PyObject *bound_restore(PyObject *self, PyObject *dict) {
  bound_object *b = (bound_object *)self;
  return bound_free(b) ? states_restore(b->m, b->x->r, dict) : NULL;
}
static PyMethodDef bound_methods[] = {
    {"reset", bound_reset, METH_VARARGS, "reset(name=None)\n\nAs of the module, for the states of this callable."},
    {"snapshot", bound_snapshot, METH_NOARGS, "snapshot()\n\nAs of the module, for the states of this callable."},
    {"restore", bound_restore, METH_O, "restore(states)\n\nAs of the module, for the states of this callable."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot bound_slots[] = {
    {Py_tp_call, bound_call}, {Py_tp_dealloc, bound_dealloc}, {Py_tp_methods, bound_methods}, {0, NULL}};
PyType_Spec bound_spec = {"einkorn._core.Bound", sizeof(bound_object), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, bound_slots};
