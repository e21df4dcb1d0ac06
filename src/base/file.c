/* How does the compiler touch the file system? Input files are mapped read-only for the life of the context (one
 * mapping per file, however often it is asked for; pipes are read into memory);
 * output files appear whole or not at all. A mapped file that somebody truncates while we read it is the one
 * accident not guarded against. */
#include "base/ctx.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool io_error(ctx *c, const char *what, const char *path, int err) {
  char text[256];
  diag_error(c, E_IO, NULL, "cannot %s '%s': %s", what, path, strerror_r(err, text, sizeof text));
  return false;
}

/* Pipes and the like. False with errno. */
static bool read_all(ctx *c, int fd, bytes *out) {
  sbuf b = sbuf_new(c->main);
  char *chunk = arena_alloc(c->main, 1 << 16);
  for (;;) {
    ssize_t n = read(fd, chunk, 1 << 16);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    sb_putn(&b, chunk, (size_t)n);
  }
  *out = (bytes){(const uint8_t *)b.s, b.n};
  return true;
}

/* Everything that can unwind, with the descriptor open. */
static bool map_open_file(ctx *c, const char *path, int fd, bytes *out) {
  struct stat st;
  if (fstat(fd, &st) != 0) return io_error(c, "read", path, errno);
  if (S_ISDIR(st.st_mode)) return io_error(c, "read", path, EISDIR);
  mapping *m = NEW(c->main, mapping);
  *m = (mapping){.path = arena_strdup(c->main, path),
                 .dev = (uint64_t)st.st_dev,
                 .ino = (uint64_t)st.st_ino,
                 .mtime_s = st.st_mtim.tv_sec,
                 .mtime_ns = st.st_mtim.tv_nsec,
                 .mapped = S_ISREG(st.st_mode) && st.st_size > 0};
  m->b = (bytes){(const uint8_t *)"", (size_t)(m->mapped ? st.st_size : 0)};
  if (!S_ISREG(st.st_mode) && !read_all(c, fd, &m->b)) return io_error(c, "read", path, errno);
  pthread_mutex_lock(&c->lock);
  const mapping *old = c->mappings;
  while (old && !(m->mapped && old->mapped && old->dev == m->dev && old->ino == m->ino && old->b.n == m->b.n &&
                  old->mtime_s == m->mtime_s && old->mtime_ns == m->mtime_ns))
    old = old->next;
  int err = 0;
  if (!old) {
    void *p = m->mapped ? mmap(NULL, m->b.n, PROT_READ, MAP_PRIVATE, fd, 0) : (void *)(uintptr_t)m->b.p;
    if (p == MAP_FAILED) {
      err = errno;
    } else {
      m->b.p = p;
      m->next = c->mappings;
      m->number = m->next ? m->next->number + 1 : 1;
      c->mappings = m;
      old = m;
    }
  }
  if (old) {
    *out = old->b;
    uint64_t step[2] = {c->asked, old->number};
    c->asked = hash_bytes(step, sizeof step, 0);
  }
  pthread_mutex_unlock(&c->lock);
  return err == 0 || io_error(c, "map", path, err);
}

bool file_map(ctx *c, const char *path, bytes *out) {
  *out = (bytes){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(c, "open", path, errno);
  volatile bool ok = false, unwound = false;
  CTX_TRY(c) { ok = map_open_file(c, path, fd, out); }
  CTX_CATCH { unwound = true; }
  close(fd);
  if (unwound) ctx_unwind(c);
  return ok;
}

/* 0, or the errno. */
static int write_fd(int fd, const void *p, size_t n) {
  const char *s = p;
  while (n) {
    ssize_t k = write(fd, s, n > (1u << 30) ? 1u << 30 : n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return errno;
    s += k;
    n -= (size_t)k;
  }
  return 0;
}

struct file_out {
  int fd;       /* the temporary file */
  int err;      /* errno of the first failure; 0: none */
  bool durable; /* synchronise with the disk */
};
void file_put(file_out *f, const void *p, size_t n) {
  if (!f->err) f->err = write_fd(f->fd, p, n);
}
/* Closes f. False: fill unwound. */
static bool filled(ctx *c, file_out *f, void (*fill)(void *env, file_out *f), void *env) {
  volatile bool good = true;
  CTX_TRY(c) { fill(env, f); }
  CTX_CATCH { good = false; }
  if (f->durable && good && !f->err && fsync(f->fd) != 0) f->err = errno;
  if (close(f->fd) != 0 && !f->err) f->err = errno;
  return good;
}
/* The names in a folder are on the disk. 0, or the errno. */
static int sync_folder(ctx *c, const char *path) {
  const int fd = open(path_dir(c->main, path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int err = fd < 0 || fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) close(fd);
  return err == EINVAL ? 0 : err; /* a file system that cannot */
}
static bool write_by(ctx *c, const char *path, bool durable, void (*fill)(void *env, file_out *f), void *env) {
  struct stat st;
  char real[PATH_MAX];
  file_out f = {-1, 0, false};
  if (stat(path, &st) == 0) {
    if (!S_ISREG(st.st_mode)) { /* a device or a pipe: there is nothing to rename over */
      if ((f.fd = open(path, O_WRONLY | O_CLOEXEC)) < 0) return io_error(c, "write", path, errno);
      if (!filled(c, &f, fill, env)) ctx_unwind(c);
      return f.err == 0 || io_error(c, "write", path, f.err);
    }
    if (realpath(path, real)) /* where path is a link, its target is replaced, so that it stays a link */
      path = arena_strdup(c->main, real);
  }
  const char *tmp = NULL;
  for (unsigned try = 0; try < 100 && f.fd < 0; try++) {
    tmp = arena_fmt(c->main, "%s.%ld.%u.tmp", path, (long)getpid(), try);
    f.fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f.fd < 0 && errno != EEXIST) break;
  }
  if (f.fd < 0) return io_error(c, "create", path, errno);
  f.durable = durable;
  bool good = filled(c, &f, fill, env);
  if (good && !f.err && rename(tmp, path) != 0) f.err = errno;
  if (!good || f.err) unlink(tmp);
  if (!good) ctx_unwind(c);
  if (durable && !f.err) f.err = sync_folder(c, path);
  return f.err == 0 || io_error(c, "write", path, f.err);
}
bool file_write_by(ctx *c, const char *path, void (*fill)(void *env, file_out *f), void *env) {
  return write_by(c, path, false, fill, env);
}
bool file_write_durably(ctx *c, const char *path, void (*fill)(void *env, file_out *f), void *env) {
  return write_by(c, path, true, fill, env);
}
static void put_all(void *env, file_out *f) {
  const bytes *b = env;
  file_put(f, b->p, b->n);
}
bool file_write(ctx *c, const char *path, const void *p, size_t n) {
  return file_write_by(c, path, put_all, &(bytes){p, n});
}

void file_digest(ctx *c, uint8_t out[32]) {
  uint8_t step[80] = {0};
  pthread_mutex_lock(&c->lock);
  const mapping *m = c->mappings;
  memcpy(step + 64, &c->asked, 8);
  pthread_mutex_unlock(&c->lock);
  for (; m; m = m->next) { /* new mappings stand in front, so that the list can be read without the lock */
    uint64_t n = m->b.n;
    content_digest(m->b.p, m->b.n, step + 32);
    memcpy(step + 72, &n, 8);
    content_digest(step, sizeof step, step);
  }
  memcpy(out, step, 32);
}
static const mapping *mappings_of(ctx *c) {
  pthread_mutex_lock(&c->lock);
  const mapping *m = c->mappings;
  pthread_mutex_unlock(&c->lock);
  return m;
}
bool file_same(ctx *was, ctx *is) {
  for (const mapping *m = mappings_of(was); m; m = m->next) {
    const mapping *k = mappings_of(is);
    while (k && !(k->mapped == m->mapped && k->dev == m->dev && k->ino == m->ino && k->b.n == m->b.n &&
                  k->mtime_s == m->mtime_s && k->mtime_ns == m->mtime_ns))
      k = k->next;
    if (!k) return false;
  }
  return true;
}
void file_cool(ctx *c) {
  pthread_mutex_lock(&c->lock);
  for (mapping *m = c->mappings; m; m = m->next)
    if (m->mapped) madvise((void *)m->b.p, m->b.n, MADV_DONTNEED);
  pthread_mutex_unlock(&c->lock);
}
void file_done(ctx *c, const void *p, size_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  pthread_mutex_lock(&c->lock);
  for (mapping *m = c->mappings; m; m = m->next) {
    uintptr_t from = (uintptr_t)p, first = (uintptr_t)m->b.p;
    if (!m->mapped || from < first || from - first > m->b.n) continue;
    uintptr_t to = from + n;
    from = (from + page - 1) / page * page, to = to / page * page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
  }
  pthread_mutex_unlock(&c->lock);
}
static const mapping *mapping_at(ctx *c, bytes b) {
  const mapping *m = mappings_of(c);
  while (m && !(m->mapped && b.p >= m->b.p && b.n <= m->b.n && (size_t)(b.p - m->b.p) <= m->b.n - b.n)) m = m->next;
  return m;
}
bool file_holds(ctx *c, bytes b) { return mapping_at(c, b) != NULL; }
/* What was mapped stays where another file has the name by now. */
const char *file_changed(ctx *c, const void *p) {
  const mapping *m = mapping_at(c, (bytes){p, 1});
  struct stat st;
  if (!m || stat(m->path, &st) != 0 || m->dev != (uint64_t)st.st_dev || m->ino != (uint64_t)st.st_ino) return NULL;
  const bool same =
      m->b.n == (size_t)st.st_size && m->mtime_s == st.st_mtim.tv_sec && m->mtime_ns == st.st_mtim.tv_nsec;
  return same || EK_PLANTED("file-changed") ? NULL : m->path;
}
bool file_exists(const char *path) { return access(path, F_OK) == 0; }

/* ---- folders --------------------------------------------------------------------------------- */
bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
static int by_bytes(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }
static void list(arena *a, DIR *f, strvec *names) {
  for (const struct dirent *e = readdir(f); e; e = readdir(f)) {
    if (e->d_name[0] == '.') continue;
    const char *name = arena_strdup(a, e->d_name);
    vec_push(a, *names, name);
  }
}
bool folder_names(ctx *c, const char *path, strvec *out) {
  volatile bool unwound = false;
  *out = (strvec){0};
  DIR *f = opendir(path);
  if (!f) return io_error(c, "open the folder", path, errno);
  CTX_TRY(c) { list(c->main, f, out); }
  CTX_CATCH { unwound = true; }
  closedir(f);
  if (unwound) ctx_unwind(c);
  if (out->n) qsort(out->v, out->n, sizeof *out->v, by_bytes);
  return true;
}

/* ---- paths ----------------------------------------------------------------------------------- */

const char *path_dir(arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return ".";
  return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

const char *path_join(arena *a, const char *dir, const char *rel) {
  if (rel[0] == '/' || dir[0] == 0 || strcmp(dir, ".") == 0) return arena_strdup(a, rel);
  return arena_fmt(a, dir[strlen(dir) - 1] == '/' ? "%s%s" : "%s/%s", dir, rel);
}

bool path_inside(const char *rel) {
  if (rel[0] == 0 || rel[0] == '/' || strchr(rel, '\\')) return false;
  for (const char *s = rel;; s++) {
    size_t n = strcspn(s, "/");
    if (n == 2 && s[0] == '.' && s[1] == '.') return false;
    s += n;
    if (!*s) return true;
  }
}

enum { HASH_STEP = 16 << 20 };
struct sha256_state {
  arena *a;   /* arena of the result */
  SHA2_CTX h; /* state of the hash */
};
sha256_state *sha256_begin(arena *a) {
  sha256_state *k = NEW(a, sha256_state);
  k->a = a;
  SHA256Init(&k->h);
  return k;
}
void sha256_add(sha256_state *k, const void *p, size_t n) {
  for (const uint8_t *s = p; n;) {
    size_t step = n > HASH_STEP ? HASH_STEP : n;
    SHA256Update(&k->h, s, step);
    if (step == HASH_STEP) file_done(arena_ctx(k->a), s, step);
    s += step;
    n -= step;
  }
}
const char *sha256_end(sha256_state *k) {
  uint8_t d[32];
  SHA256Final(d, &k->h);
  char *s = arena_alloc(k->a, 65);
  for (int i = 0; i < 32; i++) {
    s[2 * i] = "0123456789abcdef"[d[i] >> 4];
    s[2 * i + 1] = "0123456789abcdef"[d[i] & 15];
  }
  return s;
}
const char *sha256_hex(arena *a, const void *p, size_t n) {
  sha256_state *k = sha256_begin(a);
  sha256_add(k, p, n);
  return sha256_end(k);
}
