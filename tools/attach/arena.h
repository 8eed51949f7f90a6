/* attach/arena.h - leads malloc() of our thread in another process to memory that is there. */
#pragma once

struct tracee;
struct pfw_attach_block;

/*
 * Set arena_word and arena of the block for the thread block->head.thread.  Without them libc makes an
 * arena for it, 64 MiB of addresses, which it keeps for the next thread of the program.  They stay 0
 * if the process has another libc than this command.
 */
void arena_choose(const struct tracee *tracee, struct pfw_attach_block *block);
