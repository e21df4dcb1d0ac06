/* A relocatable object for x86-64: code, data that the loader fills in, names (private). */
#ifndef EK_X86_ELF_H
#define EK_X86_ELF_H
#include "base/base.h"

enum { ELF_ELSEWHERE, ELF_TEXT, ELF_DATA };
typedef struct elf_symbol {
  const char *name; /* name of the symbol */
  uint8_t where;    /* part that it is defined in: ELF_* */
  bool hidden;      /* not visible outside the library that it is linked into */
  bool function;    /* a function, not data */
  uint64_t at;      /* offset in the part */
  uint64_t size;    /* bytes; 0: not known */
} elf_symbol;
/* what stands at `at` is the symbol's address + addend, or its distance: as the type of the relocation says */
typedef struct elf_fix {
  uint64_t at;     /* offset in the part */
  uint32_t symbol; /* number of the symbol, as elf_name gave it */
  uint32_t type;   /* R_X86_64_* */
  int64_t addend;  /* bytes added */
} elf_fix;
typedef struct elf_object {
  VEC(elf_symbol) symbols; /* symbols by number */
  sbuf part[3];            /* contents of the sections; [ELF_ELSEWHERE] unused */
  VEC(elf_fix) fixes[3];   /* relocations of each section */
} elf_object;

uint32_t elf_name(arena *a, elf_object *o, elf_symbol s); /* adds a symbol; returns its number */
bytes elf_bytes(arena *a, const elf_object *o);
#endif
