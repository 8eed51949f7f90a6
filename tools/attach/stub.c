/* tools/attach/stub.c - machine code that `pfw attach` lays into a process; see stub.h.
 *
 * The code is never changed once it is in a process: a thread may be in it at any time later.  What
 * differs from one attachment to the next are the values, to which a register points.  It needs no
 * help of the command once it runs: the command may be killed at any moment.  Its first
 * part runs in a thread of the program, with the address of the values in r11.  It leaves the red zone
 * alone, saves all registers on that thread's stack, blocks signals, and starts two threads; then it
 * restores everything and goes on where the thread was.  The second part is the one of
 * pthread_create(), in which dlopen() may take as long as it likes.  libc would keep a stack of its own
 * making for the program's next thread, so this one gets one.  The third part is a bare clone(), the
 * reaper: it waits until the other thread is gone, and unmaps what is left.
 */
#include "attach/stub.h"

#if defined(__x86_64__)

/* Offsets in struct pfw_attach_block; common/format/attach.h holds it to these. */
#define STATE "0"
#define TID "4"
#define THREAD "8"
#define MESSAGE "16"
#define VALUES "24"
#define STACK "32"
#define REAPER "40"
#define ENTRY "48"
#define LIBRARY "64"
#define LEFT "4160"
#define ARENA_WORD "20544"
#define ARENA "20552"

/* Offsets in struct stub_values. */
#define PC "0"
#define RAX "8"
#define R11 "16"
#define OWN_WORD "24"
#define BLOCK "32"
#define BLOCK_BYTES "40"
#define SAVE_BYTES "48"
#define CREATE "56"
#define DETACH "64"
#define DLOPEN "72"
#define DLSYM "80"
#define DLERROR "88"
#define DLCLOSE "96"
#define DLADDR "104"
#define ATTR_INIT "112"
#define ATTR_SETSTACK "120"
#define OWN_ARENA "128"
_Static_assert(offsetof(struct stub_values, arena) == 128, "the last of them");

#define STACK_BYTES "0x400000"	  /* of our thread, with its thread-local data */
#define REAPER_FLAGS "0x00150f00" /* VM FS FILES SIGHAND THREAD SYSVSEM PARENT_SETTID */

#define CLOSES "1000" /* dlclose() at most: there were as many attachments that were not undone */

#define WAIT_LOOPS "5000" /* of a millisecond */

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".globl pfw_stub_begin\n"
	".hidden pfw_stub_begin\n"
	"pfw_stub_begin:\n"
	/* ---- in the program's thread: r11 = values ---- */
	"	leaq -128(%rsp), %rsp\n" /* the red zone */
	"	pushq " PC "(%r11)\n"	 /* for the last ret */
	"	pushfq\n"
	"	pushq " RAX "(%r11)\n"
	"	pushq %rcx\n	pushq %rdx\n	pushq %rbx\n	pushq %rbp\n"
	"	pushq %rsi\n	pushq %rdi\n	pushq %r8\n	pushq %r9\n"
	"	pushq %r10\n	pushq " R11 "(%r11)\n	pushq %r12\n	pushq %r13\n"
	"	pushq %r14\n	pushq %r15\n"
	"	cld\n"
	"	movq %rsp, %rbp\n"
	"	movq %r11, %r15\n"
	"	subq $32, %rsp\n"
	/* rt_sigprocmask(SIG_SETMASK, all, old, 8): the new thread inherits it, too */
	"	movq $-1, (%rsp)\n"
	"	movl $14, %eax\n	movl $2, %edi\n	movq %rsp, %rsi\n"
	"	leaq 8(%rsp), %rdx\n	movl $8, %r10d\n	syscall\n"
	/* a stack: mmap(0, 256 KiB, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0) */
	"	movl $9, %eax\n	xorl %edi, %edi\n	movl $0x40000, %esi\n	movl $3, %edx\n"
	"	movl $0x22, %r10d\n	movq $-1, %r8\n	xorl %r9d, %r9d\n	syscall\n"
	"	cmpq $-4096, %rax\n	ja 25f\n"
	"	movq %rax, %rbx\n"
	/* the block: the same with FIXED_NOREPLACE, which kernels before 4.17 take for a hint */
	"	movl $9, %eax\n	movq " BLOCK "(%r15), %rdi\n	movq " BLOCK_BYTES
	"(%r15), %rsi\n	movl $3, %edx\n"
	"	movl $0x100022, %r10d\n	movq $-1, %r8\n	xorl %r9d, %r9d\n	syscall\n"
	"	cmpq $-4096, %rax\n	ja 24f\n"
	"	movq %rax, %r12\n"
	"	cmpq " BLOCK "(%r15), %rax\n	jne 23f\n"
	"	movq %r15, " VALUES "(%r12)\n"
	/* the same for our thread's stack, without a reserve of memory */
	"	movl $9, %eax\n	xorl %edi, %edi\n	movl $" STACK_BYTES ", %esi\n"
	"	movl $3, %edx\n	movl $0x4022, %r10d\n	movq $-1, %r8\n	xorl %r9d, %r9d\n"
	"	syscall\n"
	"	cmpq $-4096, %rax\n	ja 23f\n"
	"	movq %rax, " STACK "(%r12)\n"
	"	movl $1, " TID "(%r12)\n"
	/* the reaper: clone(), with the end of the block for a stack, which it does not use */
	"	movl $56, %eax\n	movl $" REAPER_FLAGS ", %edi\n"
	"	movq " BLOCK_BYTES "(%r15), %rsi\n	addq %r12, %rsi\n"
	"	leaq " REAPER "(%r12), %rdx\n	xorl %r10d, %r10d\n	xorl %r8d, %r8d\n"
	"	syscall\n"
	"	testq %rax, %rax\n	jz 50f\n	js 22f\n"
	"	leaq 0x40000(%rbx), %rsp\n"
	"	subq " SAVE_BYTES "(%r15), %rsp\n"
	"	movq %rsp, %r13\n"
	"	movl $-1, %eax\n	movl $-1, %edx\n"
	"	xsave64 (%r13)\n" /* whose header is zero, as all of the mapping */
	"	movq %rbx, %rdi\n	call *" ATTR_INIT "(%r15)\n" /* at the stack's far end */
	"	movq %rbx, %rdi\n	movq " STACK "(%r12), %rsi\n"
	"	movl $" STACK_BYTES ", %edx\n	call *" ATTR_SETSTACK "(%r15)\n"
	/* A thread that has never allocated would get an arena by this call */
	"	movq $0, -8(%rbp)\n"
	"	movq " OWN_WORD "(%r15), %rdi\n	testq %rdi, %rdi\n	jz 26f\n"
	"	cmpq $0, (%rdi)\n	jne 26f\n"
	"	movq " OWN_ARENA "(%r15), %rsi\n	movq %rsi, (%rdi)\n"
	"	movq %rdi, -8(%rbp)\n"
	"26:	leaq " THREAD "(%r12), %rdi\n"
	"	movq %rbx, %rsi\n"
	"	leaq 30f(%rip), %rdx\n"
	"	movq %r12, %rcx\n"
	"	call *" CREATE "(%r15)\n"
	"	movl %eax, %r14d\n"
	"	movq -8(%rbp), %rdi\n	testq %rdi, %rdi\n	jz 27f\n"
	"	movq $0, (%rdi)\n"
	"27:	movl $-1, %eax\n	movl $-1, %edx\n"
	"	xrstor64 (%r13)\n"
	"	testl %r14d, %r14d\n	jz 24f\n"
	/* No thread: the reaper unmaps stack and block.  futex(TID, WAKE, 1) */
	"	movl $0, " TID "(%r12)\n"
	"	movl $202, %eax\n"
	"	leaq " TID "(%r12), %rdi\n"
	"	movl $1, %esi\n	movl $1, %edx\n	syscall\n"
	"	jmp 24f\n"
	"22:	movl $11, %eax\n	movq " STACK "(%r12), %rdi\n	movl $" STACK_BYTES
	", %esi\n	syscall\n"
	"23:	movl $11, %eax\n	movq %r12, %rdi\n	movq " BLOCK_BYTES
	"(%r15), %rsi\n	syscall\n" /* munmap */
	"24:	leaq -32(%rbp), %rsp\n"
	"	movl $11, %eax\n	movq %rbx, %rdi\n	movl $0x40000, %esi\n	syscall\n"
	"25:	movl $14, %eax\n	movl $2, %edi\n	leaq 8(%rsp), %rsi\n	xorl %edx, %edx\n"
	"	movl $8, %r10d\n	syscall\n"
	"	movq %rbp, %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n"
	"	popq %r11\n	popq %r10\n	popq %r9\n	popq %r8\n"
	"	popq %rdi\n	popq %rsi\n	popq %rbp\n	popq %rbx\n"
	"	popq %rdx\n	popq %rcx\n	popq %rax\n"
	"	popfq\n"
	"	ret $128\n"

	/* ---- the new thread: rdi = block ---- */
	"30:	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rdi, %rbx\n"
	"	movq " VALUES "(%rbx), %r15\n"
	"	movq " THREAD "(%rbx), %rdi\n	call *" DETACH "(%r15)\n"
	/* set_tid_address(): the kernel sets it to 0, and wakes the reaper, when this thread is gone */
	"	movl $218, %eax\n	leaq " TID "(%rbx), %rdi\n	syscall\n"
	"	movl %eax, " TID "(%rbx)\n"
	"	movl $1, %eax\n"
	"	xchgl %eax, " STATE "(%rbx)\n"	    /* WAITING */
	"	movl $2, %r12d\n	call 40f\n" /* until FILLED */
	"	testl %eax, %eax\n	jz 33f\n"
	"	movq " ARENA_WORD "(%rbx), %rdi\n	testq %rdi, %rdi\n	jz 39f\n"
	"	movq " ARENA "(%rbx), %rsi\n	movq %rsi, (%rdi)\n"
	"39:	leaq " LIBRARY "(%rbx), %rdi\n	movl $2, %esi\n" /* RTLD_NOW */
	"	call *" DLOPEN "(%r15)\n"
	"	testq %rax, %rax\n	jz 31f\n"
	"	movq %rax, %r14\n"
	"	movq %rax, %rdi\n	leaq " ENTRY "(%rbx), %rsi\n	call *" DLSYM "(%r15)\n"
	"	movl $4, %ecx\n" /* NO_ENTRY */
	"	testq %rax, %rax\n	jz 32f\n"
	"	movq %rax, %r12\n"
	"	movq %rbx, %rdi\n	call *%rax\n"
	"	movl $5, %ecx\n	jmp 32f\n" /* DONE */
	"31:	call *" DLERROR "(%r15)\n"
	"	movq %rax, " MESSAGE "(%rbx)\n"
	"	movl $3, %ecx\n" /* NOT_LOADED */
	"32:	pushq %r12\n	pushq %r12\n"
	"	xchgl %ecx, " STATE "(%rbx)\n"
	"	movl $6, %r12d\n	call 40f\n" /* until CLOSE or SEEN */
	"	popq %r12\n	popq %r12\n"
	"	cmpl $6, " STATE "(%rbx)\n	jne 33f\n"
	/* CLOSE: the entry lists what it leaves; once for each dlopen(), until dladdr() does not know it */
	"	movq %rbx, %rdi\n	call *%r12\n"
	"	subq $32, %rsp\n"
	"	movl $" CLOSES ", %r13d\n"
	"34:	movq %r14, %rdi\n	call *" DLCLOSE "(%r15)\n"
	"	pushq %rax\n	pushq %rax\n"
	"	movq %r12, %rdi\n	leaq 16(%rsp), %rsi\n	call *" DLADDR "(%r15)\n"
	"	popq %rdx\n	popq %rdx\n"
	"	testl %eax, %eax\n	jz 35f\n"
	"	testl %edx, %edx\n	jnz 37f\n"
	"	decl %r13d\n	jnz 34b\n"
	"37:	movl $8, %ecx\n	jmp 38f\n" /* KEPT */
	"35:	leaq " LEFT "(%rbx), %r14\n"
	"36:	movl $7, %ecx\n" /* UNLOADED */
	"	movq (%r14), %rdi\n	movq 8(%r14), %rsi\n"
	"	testq %rdi, %rdi\n	jz 38f\n"
	"	movl $11, %eax\n	syscall\n" /* munmap */
	"	addq $16, %r14\n	jmp 36b\n"
	"38:	addq $32, %rsp\n"
	"	xchgl %ecx, " STATE "(%rbx)\n"
	"	movl $9, %r12d\n	call 40f\n" /* until SEEN */
	/* libc has not counted this thread among those of the arena, and shall not subtract it */
	"33:	movq " ARENA_WORD "(%rbx), %rdi\n	testq %rdi, %rdi\n	jz 49f\n"
	"	movq " ARENA "(%rbx), %rsi\n	cmpq %rsi, (%rdi)\n	jne 49f\n"
	"	movq $0, (%rdi)\n"
	"49:	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	/* Wait some seconds until the state is r12d or a later one; eax: whether it is. */
	"40:	movl $" WAIT_LOOPS ", %r13d\n"
	"41:	movl $1, %eax\n"
	"	cmpl %r12d, " STATE "(%rbx)\n	jae 42f\n"
	"	pushq $1000000\n	pushq $0\n" /* struct timespec of a millisecond */
	"	movl $35, %eax\n	movq %rsp, %rdi\n	xorl %esi, %esi\n	syscall\n"
	"	addq $16, %rsp\n"
	"	xorl %eax, %eax\n"
	"	decl %r13d\n	jnz 41b\n"
	"42:	ret\n"

	/* ---- the reaper: r12 = block, r15 = values ---- */
	/* futex(TID, WAIT, its value, for ever) until it is 0 */
	"50:	movl " TID "(%r12), %edx\n	testl %edx, %edx\n	jz 51f\n"
	"	movl $202, %eax\n	leaq " TID "(%r12), %rdi\n	xorl %esi, %esi\n"
	"	xorl %r10d, %r10d\n	syscall\n"
	"	jmp 50b\n"
	"51:	movl $11, %eax\n	movq " STACK "(%r12), %rdi\n	movl $" STACK_BYTES
	", %esi\n	syscall\n"
	"	movl $11, %eax\n	movq %r12, %rdi\n	movq " BLOCK_BYTES "(%r15), %rsi\n"
	"	syscall\n"
	"	movl $60, %eax\n	xorl %edi, %edi\n	syscall\n" /* exit */
	".balign 16\n"
	".globl pfw_stub_end\n"
	".hidden pfw_stub_end\n"
	"pfw_stub_end:\n"
	".popsection\n");

extern const char pfw_stub_begin[], pfw_stub_end[];

const char *stub_text(size_t *bytes)
{
	*bytes = (size_t)(pfw_stub_end - pfw_stub_begin);
	return pfw_stub_begin;
}

#else

const char *stub_text(size_t *bytes)
{
	*bytes = 0;
	return NULL;
}

#endif
