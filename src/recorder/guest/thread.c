/* recorder/guest/thread.c - a thread that libc does not know. */
#include "recorder/guest/thread.h"

#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "common/base/os.h"
#include "recorder/guest/locked.h"

_Atomic bool pfw_locked;

#define PAGE 4096u
#define GUARD_BYTES PAGE
#define STACK_BYTES (256u * 1024u)
/* Compiled code and string functions read around the thread pointer (stack protector). */
#define TLS_BYTES 8192u

/* Zeroes on each side of the thread pointer.  A sanitizer's runtime replaces functions of libc, and
 * those first look at its own thread-local variables (ThreadSanitizer's lie 0.8 MiB below the
 * thread pointer): zeroes tell it that it does not know this thread. */
static size_t tls_bytes = TLS_BYTES;

/* libc's reserve for a thread's data and its least stack; C libraries without this function have no
 * such data. */
void pfw_own_thread_init(void)
{
	size_t (*least)(const pthread_attr_t *);
	pthread_attr_t attr;

	*(void **)&least = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
	if (!least || pthread_attr_init(&attr))
		return;
	tls_bytes = TLS_BYTES + (least(&attr) + PAGE - 1) / PAGE * PAGE;
	pthread_attr_destroy(&attr);
}

static size_t memory_bytes(void)
{
	return GUARD_BYTES + STACK_BYTES + 2 * tls_bytes;
}

static void run_work(void *arg)
{
	struct pfw_own_thread *worker = arg;

	atomic_store(&worker->tid, pfw_os_gettid());
	worker->work(worker->arg);
}

static bool map_memory(struct pfw_own_thread *worker)
{
	if (worker->memory)
		return true;
	worker->memory = pfw_unlock(pfw_os_mmap(memory_bytes(), PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
				    memory_bytes());
	if (worker->memory)
		pfw_syscall6(SYS_mprotect, (long)worker->memory, GUARD_BYTES, PROT_NONE, 0, 0, 0);
	return worker->memory != NULL;
}

/* ---- a thread that libc knows ---- */

static void *run(void *arg)
{
	run_work(arg);
	return NULL;
}

static _Atomic pthread_t last_known; /* 0 = none */

bool pfw_own_thread_is(pthread_t thread)
{
	return thread == atomic_load_explicit(&last_known, memory_order_relaxed);
}

static _Atomic uintptr_t *lent;

void pfw_own_thread_lend(_Atomic uintptr_t *starter)
{
	lent = starter;
}

static void lend(bool lends)
{
	if (lent)
		atomic_store(lent, lends ? (uintptr_t)__builtin_thread_pointer() : 0);
}

static int start_known(struct pfw_own_thread *worker)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int error;

	pthread_attr_init(&attr);
	if (map_memory(worker)) /* libc would keep one of its own for the program's next thread */
		pthread_attr_setstack(&attr, worker->memory + GUARD_BYTES,
				      memory_bytes() - GUARD_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	lend(true);
	error = pthread_create(&worker->thread, &attr, run, worker);
	if (error == EINVAL) /* the program's thread-local data needs a larger stack */
		error = pthread_create(&worker->thread, NULL, run, worker);
	lend(false);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	worker->joinable = !error;
	if (!error)
		atomic_store(&last_known, worker->thread);
	return -error;
}

/* ---- a bare clone() ---- */

/* FS: valgrind ends a program that clones without it; pfw_writer_anchor() unshares it. */
#define THREAD_FLAGS                                                                 \
	(0x100 /* VM */ | 0x200 /* FS */ | 0x400 /* FILES */ | 0x800 /* SIGHAND */ | \
	 0x10000 /* THREAD */ | 0x40000 /* SYSVSEM */ | 0x80000 /* SETTLS */ |       \
	 0x100000 /* PARENT_SETTID */ | 0x200000 /* CHILD_CLEARTID */)

/* The caller gets the tid or -errno; the new thread calls work(arg) on `stack` and ends. */
static long clone_thread(char *stack, void *tls, _Atomic uint32_t *here, void (*work)(void *),
			 void *arg)
{
	/* The new thread finds its arguments on its stack. */
	void **top = (void **)(void *)stack - 2;
	long result;

	top[0] = (void *)work;
	top[1] = arg;
#if defined(__x86_64__)
	register long r10 __asm__("r10") = (long)here;
	register void *r8 __asm__("r8") = tls;

	__asm__ volatile("syscall\n"
			 "	testq %%rax, %%rax\n"
			 "	jnz 1f\n"
			 "	xorl %%ebp, %%ebp\n"
			 "	popq %%rax\n"
			 "	popq %%rdi\n"
			 "	call *%%rax\n"
			 "	xorl %%edi, %%edi\n"
			 "	movl $60, %%eax\n" /* __NR_exit: of this thread */
			 "	syscall\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"((long)THREAD_FLAGS), "S"(top), "d"(here), "r"(r10),
			   "r"(r8)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = (long)THREAD_FLAGS;
	register void *x1 __asm__("x1") = top;
	register void *x2 __asm__("x2") = here;
	register void *x3 __asm__("x3") = tls;
	register void *x4 __asm__("x4") = here;

	__asm__ volatile("svc 0\n"
			 "	cbnz x0, 1f\n"
			 "	mov x29, #0\n"
			 "	ldp x9, x0, [sp], #16\n"
			 "	blr x9\n"
			 "	mov x0, #0\n"
			 "	mov x8, #93\n" /* __NR_exit */
			 "	svc 0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory", "cc", "x9", "x30");
	result = x0;
#endif
	return result;
}

/* A thread pointer with zeroes around it and the words that compiled code reads. */
static void *make_tls(char *memory)
{
	char *tls = memory + GUARD_BYTES + STACK_BYTES + tls_bytes;

#if defined(__x86_64__)
	memcpy(tls, __builtin_thread_pointer(), 64); /* stack guard and pointer guard */
	((void **)(void *)tls)[0] = tls;
	((void **)(void *)tls)[2] = tls;
#endif
	return tls;
}

static int start_unknown(struct pfw_own_thread *worker)
{
	uint64_t all = ~0ull, old;
	long tid;

	if (!map_memory(worker))
		return -ENOMEM;
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof(all), 0, 0);
	tid = clone_thread(worker->memory + GUARD_BYTES + STACK_BYTES, make_tls(worker->memory),
			   &worker->here, run_work, worker);
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof(old), 0, 0);
	return tid < 0 ? (int)tid : 0;
}

/* ---- both kinds ---- */

int pfw_own_thread_start(struct pfw_own_thread *worker, void (*work)(void *arg), void *arg)
{
	pfw_own_thread_join(worker);
	worker->work = work;
	worker->arg = arg;
	return worker->known || PFW_TSAN ? start_known(worker) : start_unknown(worker);
}

/* Poll: at once, which is mostly enough, then every 20 us, for about a second. */
#define QUICK_LOOKS 50u
#define LOOKS 10000u

/* The kernel clears `here` before it stops counting the thread.  Meanwhile it
 * refuses unshare() to a program without other threads, and PFW_COUNTERS counts one too many.
 * Signal 0 only tests whether the thread exists. */
static void wait_until_uncounted(int32_t tid)
{
	pid_t pid = pfw_os_getpid();

	for (unsigned i = 0; i < LOOKS && !pfw_syscall6(SYS_tgkill, pid, tid, 0, 0, 0, 0); i++)
		if (i >= QUICK_LOOKS)
			pfw_os_sleep_ns(20000);
}

void pfw_own_thread_join(struct pfw_own_thread *worker)
{
	int32_t last;
	uint32_t tid;

	if (worker->joinable)
		pthread_join(worker->thread, NULL);
	if (worker->joinable)
		atomic_store(&last_known, 0); /* the program's next thread may have its number */
	worker->joinable = false;
	/* Not a private futex: the kernel wakes it. */
	while ((tid = atomic_load(&worker->here)))
		pfw_syscall6(SYS_futex, (long)&worker->here, FUTEX_WAIT, tid, 0, 0, 0);
	last = atomic_exchange(&worker->tid, 0);
	if (last > 0)
		wait_until_uncounted(last);
}
