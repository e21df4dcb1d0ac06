/* A target's text: read and written by the table of fields (fields.def). */
#ifndef EK_TARGET_FIELDS_H
#define EK_TARGET_FIELDS_H
#include "target/target.h"
bool target_text(const char *name, bytes *text); /* contents of a built-in target's file; false: there is none */
/* Reads a target file into *t, over what its fields have; name and file are for diagnostics. false: E_TARGET is
 * reported, for each bad line. Texts are allocated in the context's arena. */
bool target_read(ctx *c, const char *name, const char *file, bytes text, target *t);
/* ---- instructions (instruction.c) ---- */
int instruction_key(const char *key); /* IK_*; -1: it is no key of an instruction */
void instruction_key_names(const char *names[IK_COUNT]);
/* Checks the instructions of a target whose fields are read, and finds what follows from their texts. false: E_TARGET
 * is reported */
bool instructions_check(ctx *c, target *t);
void instructions_print(const target *t, sbuf *b);
void instructions_fields(sbuf *b); /* their part of docs/targets.md */
/* formula.c: reads the formula, whose operands are known; NULL, or what is wrong with it */
const char *instruction_formula(arena *a, instruction *k);
#endif
