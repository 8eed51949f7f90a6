/* recorder/guest/stack.h - a stack of our own, for longer work in a thread of the program.
 *
 * The program's threads may have 16 KiB of stack, its signal handlers 8 KiB.  A probe takes at most
 * 2 KiB of that; what needs more (encoding, compressing, names of files) runs here.
 */
#pragma once

/* Call work(arg) on the stack, or as it is if we are on it already.  There is one: the caller holds
 * a lock (session's `life`), has blocked all signals, and work does not leave by longjmp().
 * Thread: app.  Signal: safe. */
void pfw_own_stack_run(void (*work)(void *arg), void *arg);
