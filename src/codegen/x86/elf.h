/* A relocatable object for x86-64: code, data that the loader fills in, names (private). */
#ifndef EK_X86_ELF_H
#define EK_X86_ELF_H
#include "base/base.h"

enum { ELF_ELSEWHERE, ELF_TEXT, ELF_DATA };
typedef struct elf_symbol {
  const char *name;
  uint8_t where;
  bool hidden, function;
  uint64_t at, size;
} elf_symbol;
/* what stands at `at` is the symbol's address + addend, or its distance: as the type of the relocation says */
typedef struct elf_fix {
  uint64_t at;
  uint32_t symbol, type;
  int64_t addend;
} elf_fix;
typedef struct elf_object {
  VEC(elf_symbol) symbols;
  sbuf part[3]; /* by `where` */
  VEC(elf_fix) fixes[3];
} elf_object;

uint32_t elf_name(arena *a, elf_object *o, elf_symbol s); /* its number */
bytes elf_bytes(arena *a, const elf_object *o);
#endif
