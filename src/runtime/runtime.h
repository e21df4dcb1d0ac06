/* runtime: all that a compiled model needs, beside itself. Depends on nothing but libc and pthreads; linked into the
 * compiler (for the JIT) and, as one object, into saved models.
 *
 * The thread pool works by tickets (pieces of a kernel's chunks, claimed by compare-and-swap): the caller takes tickets
 * too and waits only for those that were taken, never for an absent worker; workers spin for a while and then sleep on
 * a futex. It survives fork (the child starts its own workers on demand). Compiled code reaches it only through the
 * function pointer in its call record, so that code has no undefined symbols.
 */
#ifndef EK_RUNTIME_RUNTIME_H
#define EK_RUNTIME_RUNTIME_H
#include "runtime/call.h"

/* what NAME_run says where a model needs memory and call->arena is NULL */
#define EK_RT_NO_ARENA "call->arena is NULL: plan tells how many bytes it needs, at a multiple of 64"
ek_rt_pool *ek_rt_pool_create(int64_t threads); /* NULL when out of memory; workers start on the first parallel call */
void ek_rt_pool_destroy(ek_rt_pool *p);
/* call->pool == NULL or one chunk: runs here */
void ek_rt_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks);
#endif
