/* Einkorn for C++17: the C interface of einkorn.h with owners, exceptions and views. Header only.
 *
 *   einkorn::session s;
 *   einkorn::compiled_module code = s.load("model.onnx").compile();
 *   einkorn::run run = code.create_run();
 *   run.set_input("x", x.data(), x.size(), {1, 3, 224, 224});
 *   run.execute();
 *   einkorn::view<const float> y = run.output<float>("y");
 *
 * Every failure is an einkorn::error with the code and the library's text. An object ends its handle; it is moved, not
 * copied. The session must outlive its models and modules, and a module its runs. What einkorn.h says of threads,
 * ownership and lifetimes holds. `view` is std::span in C++20. */
#ifndef EINKORN_HPP
#define EINKORN_HPP
#include <cstddef>
#include <cstdint>
#include <einkorn/einkorn.h>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace einkorn {

class error : public std::runtime_error {
public:
  error(ek_code code, const char *text) : std::runtime_error(text && *text ? text : ek_code_name(code)), code_(code) {}
  ek_code code() const noexcept { return code_; }

private:
  ek_code code_;
};

#if __cplusplus >= 202002L
template <class T> using view = std::span<T>;
#else
template <class T> class view { /* elements that somebody else owns */
public:
  view(T *data, std::size_t size) : data_(data), size_(size) {}
  T *data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T &operator[](std::size_t i) const { return data_[i]; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }

private:
  T *data_;
  std::size_t size_;
};
#endif

/* the element type of a C++ type */
template <class T> struct type_of;
template <> struct type_of<float> {
  static constexpr ek_type value = EK_FLOAT;
};
template <> struct type_of<double> {
  static constexpr ek_type value = EK_DOUBLE;
};
template <> struct type_of<bool> {
  static constexpr ek_type value = EK_BOOL;
};
template <> struct type_of<std::int8_t> {
  static constexpr ek_type value = EK_INT8;
};
template <> struct type_of<std::int16_t> {
  static constexpr ek_type value = EK_INT16;
};
template <> struct type_of<std::int32_t> {
  static constexpr ek_type value = EK_INT32;
};
template <> struct type_of<std::int64_t> {
  static constexpr ek_type value = EK_INT64;
};
template <> struct type_of<std::uint8_t> {
  static constexpr ek_type value = EK_UINT8;
};
template <> struct type_of<std::uint16_t> {
  static constexpr ek_type value = EK_UINT16;
};
template <> struct type_of<std::uint32_t> {
  static constexpr ek_type value = EK_UINT32;
};
template <> struct type_of<std::uint64_t> {
  static constexpr ek_type value = EK_UINT64;
};

namespace detail {
template <class H, void (*End)(H *)> class handle { /* owns a handle of the C interface */
public:
  handle() = default;
  explicit handle(H *h) : h_(h) {}
  handle(handle &&o) noexcept : h_(std::exchange(o.h_, nullptr)) {}
  handle &operator=(handle &&o) noexcept {
    if (this != &o) End(std::exchange(h_, std::exchange(o.h_, nullptr)));
    return *this;
  }
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;
  ~handle() { End(h_); }
  H *get() const noexcept { return h_; }

private:
  H *h_ = nullptr;
};
inline void check(ek_session *s, ek_code code) {
  if (code) throw error(code, ek_message(s));
}
template <class T> void check_type(ek_type found, const char *name) {
  if (found != type_of<T>::value)
    throw error(EK_SHAPE, (std::string(name) + ": elements of type " + ek_type_name(found) + ", not " +
                           ek_type_name(type_of<T>::value))
                              .c_str());
}
} // namespace detail

/* ek_options with texts and sizes of its own. `c` is the C struct, for what has no method. */
class options {
public:
  options() { ek_options_init(&c); }
  options &dim(std::string text) { /* "N=8", "N=1:8:64" */
    dims_.push_back(std::move(text));
    return *this;
  }
  options &state(std::string text) { /* "OUTPUT=INPUT" */
    states_.push_back(std::move(text));
    return *this;
  }
  options &threads(int n) { return c.threads = n, *this; }
  options &cache(std::string folder) { /* "": the user's */
    cache_ = std::move(folder), cached_ = true;
    return *this;
  }
  options &target(std::string name) {
    target_ = std::move(name);
    return *this;
  }
  const ek_options *get() const { /* valid until the next call on this object */
    pointers_.clear();
    for (const std::string &d : dims_) pointers_.push_back(d.c_str());
    pointers_.push_back(nullptr);
    const std::size_t tied = pointers_.size();
    for (const std::string &s : states_) pointers_.push_back(s.c_str());
    pointers_.push_back(nullptr);
    filled_ = c;
    if (!dims_.empty()) filled_.dims = pointers_.data();
    if (!states_.empty()) filled_.states = pointers_.data() + tied;
    if (cached_) filled_.cache = cache_.c_str();
    if (!target_.empty()) filled_.target = target_.c_str();
    return &filled_;
  }
  ek_options c;

private:
  std::vector<std::string> dims_, states_;
  std::string cache_, target_;
  bool cached_ = false;
  mutable std::vector<const char *> pointers_;
  mutable ek_options filled_{};
};

/* sizes and working memory of one caller of a module */
class run {
public:
  explicit run(ek_run *r) : h_(r) {}
  /* binds `count` elements at data, which stay the caller's until the next time, as the input of that name */
  template <class T>
  void set_input(const char *name, const T *data, std::size_t count, std::initializer_list<std::int64_t> dims) {
    set_input(name, data, count, dims.begin(), static_cast<std::int32_t>(dims.size()));
  }
  template <class T>
  void set_input(const char *name, const T *data, std::size_t count, const std::int64_t *dims, std::int32_t rank) {
    if (std::int32_t i = find_input(name); i >= 0) detail::check_type<T>(type_of_input(i), name);
    check(ek_run_set_input(get(), name, data, count * sizeof *data, dims, rank));
  }
  template <class T> void set_output(const char *name, T *data, std::size_t count) {
    check(ek_run_set_output(get(), name, data, count * sizeof *data));
  }
  void execute() { check(ek_run_execute(get())); }
  /* after execute: the elements of that output, until the next call that changes sizes, binds or executes */
  template <class T> view<const T> output(const char *name) {
    ek_array a = array(name);
    detail::check_type<T>(a.type, name);
    return view<const T>(static_cast<const T *>(a.data), a.bytes / sizeof(T));
  }
  std::vector<std::int64_t> output_dims(const char *name) {
    ek_array a = array(name);
    return std::vector<std::int64_t>(a.dims, a.dims + a.rank);
  }
  void cancel() { ek_run_cancel(get()); } /* from any thread */
  /* states: what execute leaves for the next one (options::state) */
  void reset(const char *name = nullptr) { check(ek_run_reset(get(), name)); } /* of that name, or all */
  /* the elements that it holds, until the next execute, reset or restore */
  template <class T> view<const T> snapshot(const char *name) {
    ek_array a;
    check(ek_run_snapshot(get(), name, &a));
    detail::check_type<T>(a.type, name);
    return view<const T>(static_cast<const T *>(a.data), a.bytes / sizeof(T));
  }
  /* copies `count` elements at data */
  template <class T>
  void restore(const char *name, const T *data, std::size_t count, std::initializer_list<std::int64_t> dims) {
    check(
        ek_run_restore(get(), name, data, count * sizeof *data, dims.begin(), static_cast<std::int32_t>(dims.size())));
  }
  ek_run *get() const noexcept { return h_.get(); }

private:
  friend class compiled_module;
  run(ek_run *r, ek_module *of) : h_(r), of_(of) {}
  void check(ek_code code) const {
    if (code) throw error(code, ek_run_message(get()));
  }
  ek_array array(const char *name) const {
    ek_array a;
    check(ek_run_get_output(get(), name, &a));
    return a;
  }
  std::int32_t find_input(const char *name) const { return of_ ? ek_module_find_input(of_, name) : -1; }
  ek_type type_of_input(std::int32_t i) const {
    ek_tensor_info t;
    ek_module_input(of_, i, &t);
    return t.type;
  }
  detail::handle<ek_run, ek_run_destroy> h_;
  ek_module *of_ = nullptr;
};

/* compiled code; any number of threads may make runs of it */
class compiled_module {
public:
  compiled_module(ek_session *s, ek_module *m) : s_(s), h_(m) {}
  run create_run(int threads = 0) const {
    ek_run *r;
    detail::check(s_, ek_run_create(get(), threads, &r));
    return run(r, get());
  }
  std::int32_t inputs() const { return ek_module_inputs(get()); }
  std::int32_t states() const { return ek_module_states(get()); }
  std::int32_t outputs() const { return ek_module_outputs(get()); }
  ek_tensor_info input(std::int32_t i) const { return info(ek_module_input, i); }
  ek_tensor_info output(std::int32_t i) const { return info(ek_module_output, i); }
  ek_report report() const {
    ek_report r;
    ek_module_report(get(), &r);
    return r;
  }
  ek_module *get() const noexcept { return h_.get(); }

private:
  ek_tensor_info info(ek_code (*ask)(const ek_module *, std::int32_t, ek_tensor_info *), std::int32_t i) const {
    ek_tensor_info t;
    detail::check(s_, ask(get(), i, &t));
    return t;
  }
  ek_session *s_;
  detail::handle<ek_module, ek_module_close> h_;
};

/* a model as a graph */
class model {
public:
  model(ek_session *s, ek_model *m) : s_(s), h_(m) {}
  compiled_module compile(const options &o = options()) const {
    ek_module *m;
    check(ek_compile(get(), o.get(), &m));
    return compiled_module(s_, m);
  }
  ek_report save(const char *path, const options &o = options()) const {
    ek_report r;
    check(ek_save(get(), o.get(), path, &r));
    return r;
  }
  void check_model(const options &o = options()) const { check(ek_check(get(), o.get())); }
  ek_model *get() const noexcept { return h_.get(); }

private:
  void check(ek_code code) const { detail::check(s_, code); }
  ek_session *s_;
  detail::handle<ek_model, ek_model_close> h_;
};

class session {
public:
  session() : h_(ek_session_create()) {
    if (!h_.get()) throw error(EK_MEMORY, "out of memory");
  }
  model load(const char *path) {
    ek_model *m;
    check(ek_load(get(), path, &m));
    return model(get(), m);
  }
  /* the bytes stay the caller's, unchanged, as long as the model and what is compiled from it */
  model load(const void *data, std::size_t bytes, const char *name = nullptr) {
    ek_model *m;
    check(ek_load_memory(get(), data, bytes, name, &m));
    return model(get(), m);
  }
  compiled_module load_module(const char *path) { /* what model::save wrote as .so */
    ek_module *m;
    check(ek_module_load(get(), path, &m));
    return compiled_module(get(), m);
  }
  void load_ops(const char *path) { check(ek_load_ops(get(), path)); }
  ek_session *get() const noexcept { return h_.get(); }

private:
  void check(ek_code code) const { detail::check(get(), code); }
  detail::handle<ek_session, ek_session_destroy> h_;
};

} // namespace einkorn
#endif
