/* recorder/stack/cfi.h - how to get from a frame to its caller's, by the tables of its module.
 *
 * Compilers keep no frame pointers, but write for each address where the caller's registers are
 * (.eh_frame; DWARF 5, section 6.4).  Only the stack pointer, the frame pointer and the return
 * address are followed, since the rules of all compiled code at calls need no others.
 */
#pragma once

#include <stdint.h>

enum pfw_rule_kind {
	PFW_RULE_NONE,	 /* there is no table, or it needs more than is followed here */
	PFW_RULE_SP,	 /* the canonical frame address is the stack pointer + offset */
	PFW_RULE_FP,	 /* the frame pointer + offset */
	PFW_RULE_FP_AT,	 /* the word at the frame pointer + offset: the frame was aligned */
	PFW_RULE_END,	 /* there is no caller: a thread began here */
	PFW_RULE_SIGNAL, /* the kernel made the frame for a signal handler */
};

/* One word, so that a cache can hold it without a lock. */
struct pfw_rule {
	int32_t offset;
	/* The caller's frame pointer is at CFA + 8 * this (0 = it is unchanged); of FP_AT, at this
	 * one's frame pointer + 8 * this. */
	int16_t fp_words;
	uint8_t kind;	 /* enum pfw_rule_kind */
	int8_t ra_words; /* the return address is at CFA + 8 * (fp_words + this); of FP_AT without
			  * fp_words */
};
_Static_assert(sizeof(struct pfw_rule) == 8, "a word");

/* Of a module: its .eh_frame_hdr, and where it is mapped. */
struct pfw_cfi {
	uint64_t header, start, end;
};

/* The rule for the code at pc.  Reads the module through the kernel, so nothing faults, and takes
 * some microseconds: keep what it says.  Thread: app.  Signal: safe. */
struct pfw_rule pfw_cfi_rule(const struct pfw_cfi *cfi, uint64_t pc);
