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
 * reaper: it waits until the other thread is gone, and unmaps what is left.  The last part are the
 * lender's functions (lender.h), which stand before malloc() and its relatives for libc's own parts.
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

/* Offsets in struct stub_values. */
#define PC "0"
#define RAX "8"
#define R11 "16"
#define BLOCK "24"
#define BLOCK_BYTES "32"
#define SAVE_BYTES "40"
#define CREATE "48"
#define DETACH "56"
#define DLOPEN "64"
#define DLSYM "72"
#define DLERROR "80"
#define DLCLOSE "88"
#define DLADDR "96"
#define ATTR_INIT "104"
#define ATTR_SETSTACK "112"
#define LENT "120"
#define LENT_BYTES "128"
#define GROWS "136"
#define DISMISSED "152"
_Static_assert(offsetof(struct stub_values, dismissed) == 152, "the last of them");

/* Offsets in struct stub_lender. */
#define REAL_MALLOC "0"
#define REAL_CALLOC "8"
#define REAL_REALLOC "16"
#define REAL_FREE "24"
#define OURS "32"
#define OURS_COUNT "6"
#define OURS_1 "40"
#define OURS_2 "48"
#define OURS_3 "56"
#define OURS_4 "64"
#define OURS_5 "72"
#define STARTER "80"
#define BEGIN "88"
#define END "96"
#define NEXT "104"
#define FROM "112"
#define LOCK "120"
_Static_assert(offsetof(struct stub_lender, lock) == 120, "the last of them");

#define STACK_BYTES "0x400000"	  /* of our thread, with its thread-local data */
#define REAPER_FLAGS "0x00150f00" /* VM FS FILES SIGHAND THREAD SYSVSEM PARENT_SETTID */

#define LENT_MOST "0x10000" /* of one block that is lent */
#define FROM_BYTES "0xa00"  /* of code of dlerror.o */

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
	/* What pthread_create() allocates is lent: before other mappings take that place, unless it is there,
	 * mremap(LENT - GROWS, GROWS, GROWS + LENT_BYTES, 0), or else
	 * mmap(LENT, LENT_BYTES, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0) */
	"	movq 90f(%rip), %r14\n	movq %r14, -8(%rbp)\n"
	"	testq %r14, %r14\n	jz 20f\n"
	"	movq %r14, %r11\n	call 45f\n	jz 19f\n"
	"	movq $0, -8(%rbp)\n	jmp 20f\n"
	"19:	movq %r14, %rdi\n	call 46f\n"
	"	cmpq $0, " END "(%r14)\n	jnz 18f\n"
	"	movl $25, %eax\n	movq " LENT "(%r15), %rdi\n	movq " GROWS
	"(%r15), %rsi\n"
	"	movq " LENT_BYTES "(%r15), %rdx\n	addq %rsi, %rdx\n	subq %rsi, %rdi\n"
	"	xorl %r10d, %r10d\n	syscall\n"
	"	movq " LENT "(%r15), %rdi\n"
	"	cmpq $-4096, %rax\n	movq %rdi, %rax\n	jbe 17f\n"
	"	movl $9, %eax\n	movl $3, %edx\n	movq $-1, %r8\n	xorl %r9d, %r9d\n"
	"	movq " LENT_BYTES "(%r15), %rsi\n	movl $0x22, %r10d\n	syscall\n"
	"	cmpq $-4096, %rax\n	ja 18f\n"
	"17:	movq %rax, " BEGIN "(%r14)\n	movq %rax, " NEXT "(%r14)\n"
	"	addq " LENT_BYTES "(%r15), %rax\n	movq %rax, " END "(%r14)\n"
	"18:	movq $0, " LOCK "(%r14)\n"
	"20:"
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
	/* the reaper: clone(), with the end of the block for a stack, of which it needs some words */
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
	"	leaq " THREAD "(%r12), %rdi\n"
	"	movq %rbx, %rsi\n"
	"	leaq 30f(%rip), %rdx\n"
	"	movq %r12, %rcx\n"
	"	call *" CREATE "(%r15)\n"
	"	movl %eax, %r14d\n"
	"	movq -8(%rbp), %rdi\n	call 47f\n	movq $0, -8(%rbp)\n"
	"	movl $-1, %eax\n	movl $-1, %edx\n"
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
	"25:	movq -8(%rbp), %rdi\n	call 47f\n"
	"	movl $14, %eax\n	movl $2, %edi\n	leaq 8(%rsp), %rsi\n	xorl %edx, %edx\n"
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
	"	movq 90f(%rip), %rdi\n	call 46f\n"
	"	movq " THREAD "(%rbx), %rdi\n	call *" DETACH "(%r15)\n"
	/* set_tid_address(): the kernel sets it to 0, and wakes the reaper, when this thread is gone */
	"	movl $218, %eax\n	leaq " TID "(%rbx), %rdi\n	syscall\n"
	"	movl %eax, " TID "(%rbx)\n"
	"	movl $1, %eax\n"
	"	xchgl %eax, " STATE "(%rbx)\n"	    /* WAITING */
	"	movl $2, %r12d\n	call 40f\n" /* until FILLED */
	"	testl %eax, %eax\n	jz 33f\n"
	"	leaq " LIBRARY "(%rbx), %rdi\n	movl $2, %esi\n" /* RTLD_NOW */
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
	/* libc frees more, and allocates nothing */
	"33:	movq 90f(%rip), %rdi\n	call 47f\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	/* Wait some seconds until the state is r12d or a later one; eax: whether it is. */
	"40:	movl $" WAIT_LOOPS ", %r13d\n"
	"41:	movl $1, %eax\n"
	"	cmpl %r12d, " STATE "(%rbx)\n	jae 42f\n"
	"	xorl %eax, %eax\n"
	"	cmpq $0, " DISMISSED "(%r15)\n	jne 42f\n"
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
	/* The lender's memory, if nothing of it is in use; what is ends at r9 */
	"51:	movq 90f(%rip), %r11\n	testq %r11, %r11\n	jz 59f\n"
	"	call 45f\n	jnz 59f\n"
	"	movq 90f(%rip), %r14\n"
	"	movq " BEGIN "(%r14), %rax\n	testq %rax, %rax\n	jz 58f\n"
	"	movq %rax, %r9\n"
	"53:	cmpq " NEXT "(%r14), %rax\n	jae 55f\n"
	"	movq (%rax), %rcx\n"
	"	cmpq $0, 8(%rax)\n	je 54f\n"
	"	leaq (%rax, %rcx), %r9\n"
	"54:	addq %rcx, %rax\n	jmp 53b\n"
	/* not under another thread of ours: its command was killed, and the next one has begun */
	"55:	movq " OURS "(%r14), %rax\n	orq " OURS_1 "(%r14), %rax\n"
	"	orq " OURS_2 "(%r14), %rax\n	orq " OURS_3 "(%r14), %rax\n"
	"	orq " OURS_4 "(%r14), %rax\n	orq " OURS_5 "(%r14), %rax\n"
	"	orq " STARTER "(%r14), %rax\n	jnz 58f\n"
	"	movq %r9, " NEXT "(%r14)\n"
	"	movq " BEGIN "(%r14), %rdi\n	cmpq %r9, %rdi\n	jne 58f\n"
	"	movq " END "(%r14), %rsi\n	subq %rdi, %rsi\n"
	"	movq $0, " END "(%r14)\n	movq $0, " BEGIN "(%r14)\n"
	"	movl $11, %eax\n	syscall\n"
	"58:	movq $0, " LOCK "(%r14)\n"
	"59:	movl $11, %eax\n	movq " STACK "(%r12), %rdi\n	movl $" STACK_BYTES
	", %esi\n	syscall\n"
	"	movl $11, %eax\n	movq %r12, %rdi\n	movq " BLOCK_BYTES "(%r15), %rsi\n"
	"	syscall\n"
	"	movl $60, %eax\n	xorl %edi, %edi\n	syscall\n" /* exit */

	/* r11 = struct stub_lender: take its lock; not zero: it was not to be had, as in a child forked
	 * while it was held */
	"45:	movl $2000, %edx\n"
	"44:	movl $1, %eax\n	xchgl %eax, " LOCK "(%r11)\n"
	"	testl %eax, %eax\n	jz 43f\n"
	"	decl %edx\n	jz 38f\n"
	"	pushq %r11\n	movl $24, %eax\n	syscall\n	popq %r11\n" /* sched_yield */
	"	jmp 44b\n"
	"38:	incl %edx\n"
	"43:	ret\n"
	/* Whether this is a thread whose memory is lent: zero */
	"37:	movq %fs:0x10, %rax\n"
	"	cmpq " OURS "(%r11), %rax\n	je 36f\n"
	"	cmpq " OURS_1 "(%r11), %rax\n	je 36f\n"
	"	cmpq " OURS_2 "(%r11), %rax\n	je 36f\n"
	"	cmpq " OURS_3 "(%r11), %rax\n	je 36f\n"
	"	cmpq " OURS_4 "(%r11), %rax\n	je 36f\n"
	"	cmpq " OURS_5 "(%r11), %rax\n	je 36f\n"
	"	cmpq " STARTER "(%r11), %rax\n"
	"36:	ret\n"
	/* rdi = struct stub_lender, or 0: from now on this is such a thread, if there is room */
	"46:	xorl %esi, %esi\n	movq %fs:0x10, %rdx\n	jmp 35f\n"
	/* ... and not any more */
	"47:	movq %fs:0x10, %rsi\n	xorl %edx, %edx\n"
	"35:	testq %rdi, %rdi\n	jz 33f\n"
	"	addq $" OURS ", %rdi\n	movl $" OURS_COUNT ", %ecx\n"
	"34:	movq %rsi, %rax\n"
	"	lock cmpxchgq %rdx, (%rdi)\n	je 33f\n"
	"	addq $8, %rdi\n	decl %ecx\n	jnz 34b\n"
	"33:	ret\n"

	/* ---- the lender: malloc(), to the dynamic linker ---- */
	".balign 16\n"
	".globl pfw_stub_malloc\n	.hidden pfw_stub_malloc\n"
	"pfw_stub_malloc:\n"
	"60:	movq 90f(%rip), %r11\n"
	"	call 37b\n	je 62f\n"
	"61:	jmp *" REAL_MALLOC "(%r11)\n"
	/* Blocks lie one behind the other; each begins with its size, and whether it is in use.  Any
	 * thread frees, one at a time allocates: the first that is large enough, of free ones joined */
	"62:	cmpq $" LENT_MOST ", %rdi\n	ja 61b\n"
	"	call 45b\n	jnz 61b\n"
	"	leaq 31(%rdi), %rdx\n	andq $-16, %rdx\n"
	"	movq " BEGIN "(%r11), %rax\n"
	"71:	cmpq " NEXT "(%r11), %rax\n	jae 75f\n"
	"	cmpq $0, 8(%rax)\n	jne 74f\n"
	"72:	movq (%rax), %rcx\n	addq %rax, %rcx\n"
	"	cmpq " NEXT "(%r11), %rcx\n	jae 75f\n"
	"	cmpq $0, 8(%rcx)\n	jne 73f\n"
	"	movq (%rcx), %rcx\n	addq %rcx, (%rax)\n	jmp 72b\n"
	"73:	movq (%rax), %rcx\n	subq %rdx, %rcx\n	jb 74f\n"
	"	cmpq $32, %rcx\n	jb 76f\n"
	"	movq %rcx, (%rax, %rdx)\n	movq $0, 8(%rax, %rdx)\n"
	"	movq %rdx, (%rax)\n	jmp 76f\n"
	"74:	addq (%rax), %rax\n	jmp 71b\n"
	"75:	leaq (%rax, %rdx), %rcx\n"
	"	cmpq " END "(%r11), %rcx\n	ja 77f\n"
	"	movq %rdx, (%rax)\n	movq %rcx, " NEXT "(%r11)\n"
	"76:	movq $1, 8(%rax)\n"
	"	movq $0, " LOCK "(%r11)\n"
	"	addq $16, %rax\n	ret\n"
	"77:	movq $0, " LOCK "(%r11)\n	jmp 61b\n"
	/* malloc(), to libc: only if dlerror.o calls */
	".globl pfw_stub_malloc_libc\n	.hidden pfw_stub_malloc_libc\n"
	"pfw_stub_malloc_libc:\n"
	"	movq 90f(%rip), %r11\n"
	"	movq (%rsp), %rax\n	subq " FROM "(%r11), %rax\n"
	"	cmpq $" FROM_BYTES ", %rax\n	jb 60b\n"
	"	jmp *" REAL_MALLOC "(%r11)\n"
	/* calloc() */
	".globl pfw_stub_calloc\n	.hidden pfw_stub_calloc\n"
	"pfw_stub_calloc:\n"
	"	movq 90f(%rip), %r11\n"
	"	call 37b\n	je 64f\n"
	"63:	jmp *" REAL_CALLOC "(%r11)\n"
	"64:	movq %rdi, %rax\n	mulq %rsi\n	jo 63b\n"
	"	cmpq $" LENT_MOST ", %rax\n	ja 63b\n"
	"	pushq %rax\n	movq %rax, %rdi\n	call 62b\n	popq %rcx\n"
	"	testq %rax, %rax\n	jz 48f\n"
	"	movq %rax, %rdx\n	movq %rax, %rdi\n	xorl %eax, %eax\n	rep stosb\n"
	"	movq %rdx, %rax\n"
	"48:	ret\n"
	/* free() */
	".globl pfw_stub_free\n	.hidden pfw_stub_free\n"
	"pfw_stub_free:\n"
	"	movq 90f(%rip), %r11\n"
	"	cmpq " BEGIN "(%r11), %rdi\n	jb 65f\n"
	"	cmpq " END "(%r11), %rdi\n	jae 65f\n"
	"	movq $0, -8(%rdi)\n"
	"	ret\n"
	"65:	jmp *" REAL_FREE "(%r11)\n"
	/* realloc() */
	".globl pfw_stub_realloc\n	.hidden pfw_stub_realloc\n"
	"pfw_stub_realloc:\n"
	"	movq 90f(%rip), %r11\n"
	"	cmpq " BEGIN "(%r11), %rdi\n	jb 66f\n"
	"	cmpq " END "(%r11), %rdi\n	jae 66f\n"
	"	pushq %rdi\n	pushq %rsi\n	subq $8, %rsp\n"
	"	movq %rsi, %rdi\n	call 60b\n"
	"	addq $8, %rsp\n	popq %rcx\n	popq %rsi\n"
	"	testq %rax, %rax\n	jz 68f\n"
	"	movq -16(%rsi), %rdx\n	subq $16, %rdx\n"
	"	cmpq %rcx, %rdx\n	jae 67f\n"
	"	movq %rdx, %rcx\n"
	"67:	movq %rsi, %rdx\n	movq %rax, %rdi\n	rep movsb\n"
	"	movq $0, -8(%rdx)\n"
	"68:	ret\n"
	/* nothing to enlarge: as malloc() */
	"66:	testq %rdi, %rdi\n	jnz 69f\n"
	"	call 37b\n	je 70f\n"
	"69:	jmp *" REAL_REALLOC "(%r11)\n"
	"70:	movq %rsi, %rdi\n	jmp 60b\n"
	".balign 16\n"
	".globl pfw_stub_end\n"
	".hidden pfw_stub_end\n"
	"pfw_stub_end:\n"
	"90:	.quad 0\n" /* the address of struct stub_lender, in the process; 0 = none */
	".popsection\n");

extern const char pfw_stub_begin[], pfw_stub_end[], pfw_stub_malloc[], pfw_stub_malloc_libc[],
	pfw_stub_calloc[], pfw_stub_realloc[], pfw_stub_free[];

const char *stub_text(size_t *bytes)
{
	*bytes = (size_t)(pfw_stub_end - pfw_stub_begin);
	return pfw_stub_begin;
}

struct stub_functions stub_functions(uint64_t place)
{
	uint64_t distance = place - (uintptr_t)pfw_stub_begin;

	return (struct stub_functions){
		{ (uintptr_t)pfw_stub_malloc + distance, (uintptr_t)pfw_stub_calloc + distance,
		  (uintptr_t)pfw_stub_realloc + distance, (uintptr_t)pfw_stub_free + distance },
		(uintptr_t)pfw_stub_malloc_libc + distance,
	};
}

#endif
