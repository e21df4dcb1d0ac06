/* What does a command take?   usage COMMAND ARGUMENT...   Its output goes to stderr; the line `MEGABYTES
 * MILLISECONDS CODE` to stdout: the most memory resident at one time, in the largest of its processes, and the time of
 * processors that all of them took, and how the command exited. */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long ms(struct timeval t) { return t.tv_sec * 1000 + t.tv_usec / 1000; }
int main(int argc, char **argv) {
  struct rusage r;
  int status;
  if (argc < 2) return 2;
  pid_t pid = fork();
  if (pid == 0) {
    dup2(2, 1);
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    _exit(127);
  }
  while (pid > 0 && waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return 1;
  if (pid < 0 || getrusage(RUSAGE_CHILDREN, &r)) return 1;
  printf("%ld %ld %d\n", r.ru_maxrss / 1024, ms(r.ru_utime) + ms(r.ru_stime),
         WIFEXITED(status) ? WEXITSTATUS(status) : 128);
  return 0;
}
