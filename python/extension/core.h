/* extension: einkorn._core, the C library as Python types. It has what must be fast or must hold the C handles:
 * compiling, binding arrays, running. Everything else is in the .py files of the package.
 *
 *   core.c      the module, its functions, errors
 *   options.c   a dict of options as ek_options
 *   module.c    the type Module: a compiled model
 *   values.c    arrays of Python as memory of inputs and outputs
 *   dlpack.c    tensors of other libraries, by DLPack
 *   call.c      running: calls, and the type Bound
 *   states.c    what stays from call to call
 *   diff.c      which tensor is wrong first
 *   quantize.c  int8 models of f32 ones
 *   train.c     the type Trainer: a step of training
 *
 * Python's limited API of 3.11: one file serves all later versions. Functions return NULL or -1 with a Python
 * exception set, as Python's own do. The GIL is held, but while the library compiles, saves or runs. */
#ifndef EINKORN_CORE_H
#define EINKORN_CORE_H
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <einkorn/einkorn.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct tensor {        /* an input or output */
  PyObject *name;              /* str */
  ek_type type;                /* element type as the module has it */
  bool text;                   /* strings in the model: bytes here, with one axis more */
  bool fixed;                  /* all sizes are numbers */
  bool late;                   /* output: a run found other sizes than were known before it */
  int32_t rank;                /* -1: not known before a run */
  int64_t dims[EK_MAX_RANK];   /* -1: open */
  PyObject *dims_of;           /* tuple: an int for each fixed dimension, a str for each open one; None: no rank */
  PyObject *dtype, *view_type; /* numpy's dtype for the memory; what the array is then viewed as, or NULL */
} tensor;

typedef struct context context; /* a run, and what is bound to it; call.c */
typedef struct module_object {
  PyObject_HEAD ek_session *s;
  ek_model *m; /* NULL: loaded from a library */
  ek_module *code;
  Py_buffer source;        /* the model's bytes where it came from memory; obj NULL: it did not */
  PyObject *options;       /* dict that it was compiled with */
  PyThread_type_lock lock; /* of the session: one thread at a time */
  int32_t nin, nout, nstate;
  tensor *in, *out, *state;
  context *spare; /* runs that no call uses; of a module with states the one that all calls share */
  bool taken;     /* with states: a call uses that one */
  int active;     /* calls and Bounds that use a context, and calls of the session */
  bool closed;    /* by close(): the rest ends with the last of them */
} module_object;

static inline void replace(PyObject **to, PyObject *with) { /* takes `with` */
  PyObject *old = *to;
  *to = with;
  Py_XDECREF(old);
}

/* ---- core.c ------------------------------------------------------------------------------------ */
/* sets the exception of this code with the library's text; NULL */
void *fail(ek_code code, const char *text);
/* a text of the library as str, or None; models may have names that are not UTF-8 */
PyObject *text_of(const char *s);
/* a function of the package's module _arrays, borrowed for ever: what C leaves to Python; NULL: exception */
PyObject *helper(const char *name);
PyObject *numpy_empty(void); /* numpy.empty, borrowed for ever */
/* adds definitions: None, or a list of (name, text), where a text of None means the file of that name */
bool ops_load(ek_session *s, PyObject *definitions);

/* ---- options.c --------------------------------------------------------------------------------- */
typedef struct options {
  ek_options o;
  const char *dims[65], *watch[257], *states[257]; /* borrowed from the dict */
} options;
bool options_from(PyObject *dict, options *out); /* false: exception */
bool option_number(PyObject *dict, const char *key, uint64_t *out);
const char *option_text(PyObject *dict, const char *key); /* NULL: not given, or exception */
/* a list of at most `most` texts, in `room`, NULL-terminated; NULL: not given or empty, or exception */
const char *const *option_texts(PyObject *dict, const char *key, const char **room, Py_ssize_t most);

/* ---- module.c ---------------------------------------------------------------------------------- */
extern PyType_Spec module_spec;
bool module_enter(module_object *m); /* false: it is closed, exception */
void module_leave(module_object *m);
/* The session and its model, for this thread alone, until session_give. false: exception */
bool session_take(module_object *m, const char *what);
void session_give(module_object *m);
bool tensor_fill(tensor *t, const ek_tensor_info *i); /* false: exception; to be cleared all the same */
void tensor_clear(tensor *t);
void tensors_free(tensor *t, int32_t n);
PyObject *report_dict(const ek_report *r, const ek_memory_use *use); /* use may be NULL */

/* ---- values.c ---------------------------------------------------------------------------------- */
typedef struct value { /* memory of an array, held until value_release */
  void *data;          /* dense, row-major */
  int32_t rank;
  int64_t dims[EK_MAX_RANK];
  Py_buffer view;        /* obj NULL: not by the buffer protocol */
  void (*end)(void *of); /* gives the memory back; NULL: nothing to do */
  void *of;
} value;
/* `o` as input t. Arrays that do not fit as they are (lists, other strides, strings) are converted by _arrays.prepare,
 * which refuses what would change values. */
bool value_input(const tensor *t, PyObject *o, value *out);
/* `o` as memory that output t is written to: writable, dense, of its type and of these sizes */
bool value_output(const tensor *t, PyObject *o, const int64_t *dims, int32_t rank, value *out);
void value_release(value *v);
ek_type type_named(const char *name); /* by the library's name; 0: there is none */
/* a new array for output t; its memory is in *out until released */
PyObject *value_new(const tensor *t, PyObject *shape, value *out);

/* ---- dlpack.c ---------------------------------------------------------------------------------- */
/* 1: `o` is now in *out; 0: it has no DLPack, or not as this type; -1: exception */
int dlpack_input(const tensor *t, PyObject *o, value *out);
/* dlpack_export(array, type, version, copied) -> capsule: for types that numpy does not export */
PyObject *dlpack_export(PyObject *self, PyObject *args);

/* ---- call.c ------------------------------------------------------------------------------------ */
extern PyType_Spec bound_spec;
extern PyObject *bound_type;
PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *module_run(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *set_tracing(PyObject *self, PyObject *args);
PyObject *module_bind(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *module_profile(PyObject *self, PyObject *args);
PyObject *module_reset(PyObject *self, PyObject *args);
PyObject *module_snapshot(PyObject *self, PyObject *none);
PyObject *module_restore(PyObject *self, PyObject *dict);
void contexts_free(module_object *m);
/* the arrays of a dict, borrowed, in the order of these inputs; false: exception */
bool inputs_by_name(const tensor *t, int32_t n, PyObject *dict, PyObject **out);

/* ---- states.c ---------------------------------------------------------------------------------- */
PyObject *states_reset(ek_run *r, PyObject *args);
PyObject *states_snapshot(module_object *m, ek_run *r);
PyObject *states_restore(module_object *m, ek_run *r, PyObject *dict);
PyObject *array_copy(const tensor *t, const ek_array *a); /* a new array */

/* ---- quantize.c -------------------------------------------------------------------------------- */
/* _quantize(options, samples, path, method, percentile, per_channel, exclude, least_sqnr, most_changed, only_faster,
 *           smooth, correct_bias, (scheme, bits, block_size, zero_points, accuracy_level)) -> dict */
PyObject *module_quantize(PyObject *self, PyObject *args);

/* ---- diff.c ------------------------------------------------------------------------------------ */
/* _diff(options, inputs, rtol, atol, save, passes, reference, checked) -> dict */
PyObject *module_diff(PyObject *self, PyObject *args);
/* these inputs as the library takes them, from a dict by name; v: their memory, to be released; false: exception */
bool inputs_from(const tensor *t, int32_t n, PyObject *dict, value *v, ek_array *to);

/* ---- train.c ----------------------------------------------------------------------------------- */
extern PyType_Spec trainer_spec;
#endif
