/* recorder/guest/stack.c - a stack of our own, for longer work in a thread of the program. */
#include "recorder/guest/stack.h"

#include <stdalign.h>
#include <stdint.h>

/* ISA-L takes 21 KiB; dlopen() of a library may take more.  The stack is in .bss: allocation cannot
 * fail, untouched pages take no memory, and a forked child has its own. */
#define STACK_BYTES (128u * 1024u)
static alignas(64) char stack[STACK_BYTES];

/* work(arg) with the stack pointer at `top`. */
__attribute__((visibility("hidden"))) void pfw_own_stack_switch(void (*work)(void *), void *arg,
								char *top);

#if defined(__x86_64__)
__asm__(".text\n"
	".globl pfw_own_stack_switch\n"
	".hidden pfw_own_stack_switch\n"
	".type pfw_own_stack_switch, @function\n"
	"pfw_own_stack_switch:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register rbp\n"
	"	movq %rdx, %rsp\n"
	"	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	call *%rax\n"
	"	movq %rbp, %rsp\n"
	"	popq %rbp\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size pfw_own_stack_switch, . - pfw_own_stack_switch\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl pfw_own_stack_switch\n"
	".hidden pfw_own_stack_switch\n"
	".type pfw_own_stack_switch, %function\n"
	"pfw_own_stack_switch:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	stp x29, x30, [sp, -16]!\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset x29, -16\n"
	"	.cfi_offset x30, -8\n"
	"	mov x29, sp\n"
	"	.cfi_def_cfa_register x29\n"
	"	mov sp, x2\n"
	"	mov x9, x0\n"
	"	mov x0, x1\n"
	"	blr x9\n"
	"	mov sp, x29\n"
	"	.cfi_def_cfa_register sp\n"
	"	ldp x29, x30, [sp], 16\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size pfw_own_stack_switch, . - pfw_own_stack_switch\n");
#else
#error "pfw: src/recorder/guest/stack.c has no switch of stacks for this processor yet"
#endif

void pfw_own_stack_run(void (*work)(void *arg), void *arg)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)stack;

	if (here < STACK_BYTES)
		work(arg);
	else
		pfw_own_stack_switch(work, arg, stack + STACK_BYTES);
}
