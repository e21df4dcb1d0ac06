/* A program of an older header: no function may write beyond the structs that this header declares, and what it
 * does must work. Each struct ends where a page ends that may not be touched.   old MODEL */
#include <einkorn/einkorn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* n bytes of any contents, right in front of memory that faults */
static void *at_the_edge(size_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE)) return NULL;
  memset(p, 0xa5, page);
  return p + page - n;
}
#define EDGE(T) ((T *)at_the_edge(sizeof(T)))
#define CHECK(what)                                                                                                    \
  if (!(what)) return printf("line %d: %s: %s\n", __LINE__, #what, s ? ek_message(s) : ""), 1

int main(int argc, char **argv) {
  ek_session *s = NULL;
  ek_model *m;
  ek_module *code;
  ek_run *run;
  static float x[2 * 64];
  const char *text;
  ek_session_options *so = EDGE(ek_session_options);
  ek_options *o = EDGE(ek_options);
  ek_run_options *ro = EDGE(ek_run_options);
  ek_show_options *w = EDGE(ek_show_options);
  ek_report *report = EDGE(ek_report);
  ek_tensor_info *t = EDGE(ek_tensor_info);
  ek_model_info *about = EDGE(ek_model_info);
  CHECK(argc == 2 && so && o && ro && w && report && t && about);
  ek_session_options_init(so);
  ek_options_init(o);
  ek_run_options_init(ro);
  ek_show_options_init(w);
  CHECK(so->size <= sizeof *so && o->size <= sizeof *o && ro->size <= sizeof *ro && w->size <= sizeof *w);
  CHECK(o->optimize == 3 && !o->threads && !o->cache && !o->memory_limit && !so->alloc && !ro->pool);
  CHECK((s = ek_session_create_with(so)) != NULL);
  CHECK(!ek_load(s, argv[1], &m) && !ek_model_input(m, 0, t) && t->rank == 4 && !ek_model_output(m, 0, t));
  o->threads = 2;
  CHECK(!ek_check(m, o) && !ek_model_describe(m, o, about) && about->nodes > 0);
  w->stage = "expr";
  CHECK(!ek_show(m, o, w, &text) && strstr(text, "stage"));
  CHECK(!ek_compile(m, o, &code) && !ek_module_input(code, 0, t) && !ek_module_output(code, 0, t));
  ek_module_report(code, report);
  CHECK(report->kernels > 0 && report->memory[0]);
  ro->threads = 1;
  CHECK(!ek_run_create_with(code, ro, &run) && ek_run_threads(run) == 1);
  int64_t dims[] = {2, 1, 8, 8};
  CHECK(!ek_run_shape(run, 0, dims, 4) && !ek_run_bind_input(run, 0, x) && !ek_run_execute(run));
  const float *y = ek_run_output_data(run, 0);
  float sum = 0;
  for (int i = 0; i < 20; i++) sum += y[i];
  CHECK(sum > 1.999f && sum < 2.001f);
  ek_session_destroy(s);
  return 0;
}
