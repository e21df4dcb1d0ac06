/* Where do entries lie, and can what lies there be trusted? The folder must belong to this user and be writable for
 * nobody else, its entries as well; it is opened once, and everything happens relative to that open
 * folder, so that it cannot be exchanged in between. Entries are ordinary files KEY.ek; when they would grow over
 * the limit those used longest ago go first (an entry's time of modification says when it was used). */
#include "driver/cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIMIT (2ull << 30)
enum { STALE_SECONDS = 3600, TOUCH_SECONDS = 60 };

static bool no(const char **why, const char *text) {
  *why = text;
  return false;
}
static bool no_errno(ctx *c, const char **why, const char *what) {
  char text[256];
  *why = arena_fmt(ctx_arena(c), "%s: %s", what, strerror_r(errno, text, sizeof text));
  return false;
}

/* ---- finding and opening it ------------------------------------------------------------------ */
static const char *by_environment(ctx *c, bool *own, const char **why) {
  const char *dir = secure_getenv("EINKORN_CACHE_DIR"), *xdg = secure_getenv("XDG_CACHE_HOME"),
             *home = secure_getenv("HOME");
  *own = false;
  if (dir && *dir) return dir;
  *own = true;
  if (xdg && *xdg == '/') return arena_fmt(ctx_arena(c), "%s/einkorn", xdg);
  if (home && *home == '/') return arena_fmt(ctx_arena(c), "%s/.cache/einkorn", home);
  *why = "neither EINKORN_CACHE_DIR, XDG_CACHE_HOME nor HOME says where";
  return NULL;
}
/* Makes the folder and those above it. own: only inside a folder of this user. */
static bool make_folder(ctx *c, const char *path, bool own, const char **why) {
  char *p = arena_strdup(ctx_arena(c), path);
  struct stat st;
  bool checked = false;
  for (char *s = p + 1;; s++) { /* makes the folders of the path that are missing */
    if (*s && *s != '/') continue;
    char was = *s;
    *s = 0;
    if (stat(p, &st)) {
      if (errno != ENOENT) return no_errno(c, why, p);
      if (own && !checked && st.st_uid != geteuid())
        return no(why, arena_fmt(ctx_arena(c), "%s would be made inside another user's folder", path));
      checked = true;
      if (mkdir(p, 0700) && errno != EEXIST) return no_errno(c, why, p);
    }
    *s = was;
    if (!was) return true;
  }
}
static bool read_limit(uint64_t *limit) {
  const char *s = secure_getenv("EINKORN_CACHE_SIZE");
  *limit = DEFAULT_LIMIT;
  if (!s || !*s) return true;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(s, &end, 10);
  int shift = *end == 'K' || *end == 'k'   ? 10
              : *end == 'M' || *end == 'm' ? 20
              : *end == 'G' || *end == 'g' ? 30
              : *end == 'T' || *end == 't' ? 40
                                           : 0;
  if (shift) end++;
  if (shift && *end == 'i') end++;
  if (*end == 'B') end++;
  if (end == s || *s == '-' || *end || errno || v > (UINT64_MAX >> shift)) return false;
  *limit = (uint64_t)v << shift;
  return true;
}
bool folder_open(ctx *c, const char *path, uint64_t limit, folder *f, const char **why) {
  bool own = false;
  *f = (folder){.fd = -1, .limit = limit};
  if (!limit && !read_limit(&f->limit))
    return no(why, "EINKORN_CACHE_SIZE is not a number of bytes, such as 500M or 2G");
  if (!f->limit) return no(why, "EINKORN_CACHE_SIZE is 0");
  if (!*path && !(path = by_environment(c, &own, why))) return false;
  f->path = arena_strdup(ctx_arena(c), path);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    if (!make_folder(c, path, own, why)) return false;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (fd < 0) return no_errno(c, why, path);
  struct stat st;
  if (fstat(fd, &st))
    no_errno(c, why, path);
  else if (st.st_uid != geteuid())
    no(why, arena_fmt(ctx_arena(c), "%s belongs to another user", path));
  else if (st.st_mode & 022)
    no(why, arena_fmt(ctx_arena(c), "others may write in %s (mode %03o; 700 is expected)", path, st.st_mode & 0777));
  else {
    f->fd = fd;
    return true;
  }
  close(fd);
  return false;
}
void folder_close(folder *f) {
  if (f->fd >= 0) close(f->fd);
  f->fd = -1;
}

/* ---- reading --------------------------------------------------------------------------------- */
static bool map_fd(ctx *c, int fd, size_t n, bool soon, bytes *out, const char **why) {
  void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | (soon ? MAP_POPULATE : 0), fd, 0);
  if (p == MAP_FAILED) return no_errno(c, why, "it cannot be mapped");
  *out = (bytes){p, n};
  return true;
}
static bool checked(ctx *c, int fd, bool use, bytes *out, const char **why) {
  struct stat st;
  if (fstat(fd, &st)) return no_errno(c, why, "it cannot be read");
  if (!S_ISREG(st.st_mode)) return no(why, "it is not a file");
  if (st.st_uid != geteuid()) return no(why, "it belongs to another user");
  if (st.st_mode & 022 && !EK_PLANTED("cache-open")) return no(why, "others may write it");
  if (st.st_size <= 0 || (uint64_t)st.st_size > SIZE_MAX / 2) return no(why, "it is empty");
  if (!map_fd(c, fd, (size_t)st.st_size, use, out, why)) return false;
  /* In a folder that can only be read this fails, and does not matter. */
  if (use && time(NULL) - st.st_mtim.tv_sec > TOUCH_SECONDS) futimens(fd, NULL);
  return true;
}
bool folder_map(ctx *c, folder *f, const char *name, bool use, bytes *out, const char **why) {
  *why = NULL;
  int fd = openat(f->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? false : no_errno(c, why, "it cannot be opened");
  bool good = checked(c, fd, use, out, why);
  close(fd);
  return good;
}

/* ---- keeping within the limit ---------------------------------------------------------------- */
typedef struct old {
  char name[72];        /* name of the entry */
  struct timespec used; /* when it was used last */
  uint64_t bytes;       /* bytes of the entry */
} old;
static int by_age(const void *a, const void *b) {
  const old *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}
static bool is_entry(const char *name) { return strspn(name, "0123456789abcdef") == 64 && !strcmp(name + 64, ".ek"); }
static bool is_temporary(const char *name) { return !strncmp(name, ".tmp-", 5); }
static DIR *list(const folder *f) {
  int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d && fd >= 0) close(fd);
  return d;
}
const char *folder_like(ctx *c, const folder *f, const char *name, size_t n) {
  DIR *d = list(f);
  old best = {.name = ""};
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    struct stat st;
    if (!is_entry(e->d_name) || strncmp(e->d_name, name, n) || !strcmp(e->d_name, name) ||
        fstatat(f->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
      continue;
    old o = {.used = st.st_mtim};
    memcpy(o.name, e->d_name, strlen(e->d_name) + 1);
    if (!best.name[0] || by_age(&best, &o) < 0) best = o;
  }
  if (d) closedir(d);
  return best.name[0] ? arena_strdup(ctx_arena(c), best.name) : NULL;
}
static void trim(ctx *c, const folder *f, const char *except, uint64_t more) {
  arena *a = ctx_arena(c);
  DIR *d = list(f);
  if (!d) return;
  VEC(old) all = {0};
  uint64_t total = more;
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    struct stat st;
    if ((!is_entry(e->d_name) && !is_temporary(e->d_name)) || fstatat(f->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(st.st_mode))
      continue;
    if (is_temporary(e->d_name)) { /* a file of a process that was killed */
      if (time(NULL) - st.st_mtim.tv_sec > STALE_SECONDS) unlinkat(f->fd, e->d_name, 0);
      continue;
    }
    if (!strcmp(e->d_name, except) || EK_PLANTED("cache-limit")) continue;
    old o = {.used = st.st_mtim, .bytes = (uint64_t)st.st_size};
    memcpy(o.name, e->d_name, strlen(e->d_name) + 1);
    total += o.bytes;
    vec_push(a, all, o);
  }
  closedir(d);
  if (all.n && total > f->limit) qsort(all.v, all.n, sizeof *all.v, by_age);
  for (uint32_t i = 0; i < all.n && total > f->limit; i++)
    if (!unlinkat(f->fd, all.v[i].name, 0) || errno == ENOENT) total -= all.v[i].bytes;
}

/* ---- writing --------------------------------------------------------------------------------- */
static bool put(int fd, const uint8_t *p, size_t n) {
  while (n) {
    ssize_t k = write(fd, p, n > (1u << 30) ? 1u << 30 : n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    p += k, n -= (size_t)k;
  }
  return true;
}
static bool put_parts(int fd, const bytes *parts, uint32_t n, size_t align) {
  static const uint8_t zeros[4096];
  for (uint32_t i = 0; i < n; i++) {
    if (!put(fd, parts[i].p, parts[i].n)) return false;
    for (size_t rest = -parts[i].n & (align - 1); rest;) {
      size_t k = rest < sizeof zeros ? rest : sizeof zeros;
      if (!put(fd, zeros, k)) return false;
      rest -= k;
    }
  }
  return true;
}
static bool write_entry(ctx *c, folder *f, const char *name, const bytes *parts, uint32_t n, size_t align, size_t total,
                        bytes *map, const char **why) {
  uint64_t salt = 0;
  if (getrandom(&salt, sizeof salt, GRND_NONBLOCK) < 0) salt = (uint64_t)(now_ms() * 1e6);
  const char *tmp = arena_fmt(ctx_arena(c), ".tmp-%ld-%016llx", (long)getpid(), (unsigned long long)salt);
  int fd = openat(f->fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return no_errno(c, why, "it cannot be written");
  bytes got = {0};
  bool good = put_parts(fd, parts, n, align) || no_errno(c, why, "it cannot be written");
  if (good && map) good = map_fd(c, fd, total, false, &got, why);
  if (close(fd) && good) good = no_errno(c, why, "it cannot be written");
  if (good && renameat(f->fd, tmp, f->fd, name)) good = no_errno(c, why, "it cannot be written");
  if (good) {
    if (map) *map = got;
    return true;
  }
  if (got.n) munmap((void *)(uintptr_t)got.p, got.n);
  unlinkat(f->fd, tmp, 0);
  return false;
}
bool folder_write(ctx *c, folder *f, const char *name, const bytes *parts, uint32_t n, size_t align, bytes *map,
                  const char **why) {
  size_t total = 0;
  for (uint32_t i = 0; i < n; i++) total += (parts[i].n + align - 1) / align * align;
  if (total > f->limit)
    return no(why,
              arena_fmt(ctx_arena(c), "it takes %zu bytes, more than the limit of %llu for all (EINKORN_CACHE_SIZE)",
                        total, (unsigned long long)f->limit));
  trim(c, f, name, total);
  /* A limit on the size of files (ulimit -f) is told by a signal that would end the process. */
  sigset_t x, before, pending;
  sigemptyset(&x);
  sigaddset(&x, SIGXFSZ);
  bool was = !sigpending(&pending) && sigismember(&pending, SIGXFSZ), masked = !pthread_sigmask(SIG_BLOCK, &x, &before);
  bool good = write_entry(c, f, name, parts, n, align, total, map, why);
  if (masked) {
    if (!was) sigtimedwait(&x, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  return good;
}
