/* waits_target.c - waits that do not end as usual: cancelled, left by a jump, across a fork, in a handler, in
 * glibc's old conditions.  What it prints is the same with and without the tracer. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static sigjmp_buf place;

static void unseen_sleep(long ms)
{
	syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void unlock(void *unused)
{
	(void)unused;
	pthread_mutex_unlock(&mutex);
}

static void *wait_for_ever(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, NULL);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *join_for_ever(void *thread)
{
	pthread_join(*(pthread_t *)thread, NULL);
	return NULL;
}

/* Conditions and joins are cancellation points, also inside the tracer. */
static void cancelled(void)
{
	pthread_t waiter, joiner;
	void *how[2];

	pthread_create(&waiter, NULL, wait_for_ever, NULL);
	pthread_create(&joiner, NULL, join_for_ever, &waiter);
	unseen_sleep(20);
	pthread_cancel(joiner);
	pthread_join(joiner, &how[0]);
	pthread_cancel(waiter);
	pthread_join(waiter, &how[1]);
	printf("cancelled %d %d %d\n", how[0] == PTHREAD_CANCELED, how[1] == PTHREAD_CANCELED,
	       pthread_mutex_lock(&mutex));
	pthread_mutex_unlock(&mutex);
}

/* A semaphore that is free acts on a cancellation all the same. */
static void *take_when_cancelled(void *unused)
{
	(void)unused;
	sem_post(&semaphore);
	pthread_cancel(pthread_self());
	sem_wait(&semaphore);
	return NULL;
}

static void cancelled_before(void)
{
	pthread_t thread;
	void *how;
	int value;

	pthread_create(&thread, NULL, take_when_cancelled, NULL);
	pthread_join(thread, &how);
	sem_getvalue(&semaphore, &value);
	printf("cancelled before %d %d\n", how == PTHREAD_CANCELED, value);
	sem_wait(&semaphore);
}

static void jump(int number)
{
	siglongjmp(place, number);
}

static void left_by_a_jump(void)
{
	const struct itimerval soon = { .it_value.tv_usec = 20000 };

	signal(SIGALRM, jump);
	if (!sigsetjmp(place, 1)) {
		setitimer(ITIMER_REAL, &soon, NULL);
		sem_wait(&semaphore);
	}
	if (!sigsetjmp(place, 1)) {
		setitimer(ITIMER_REAL, &soon, NULL);
		sleep(60);
	}
	signal(SIGALRM, SIG_DFL);
	puts("left by a jump");
}

/* glibc counts who waits in the upper half of its first word. */
static int is_awaited(sem_t *sem)
{
	uint64_t word;

	memcpy(&word, sem, sizeof(word));
	return word >> 32 != 0;
}

/* Not before the wait, which a loaded machine may begin late. */
static void post(int number)
{
	const struct itimerval never = { 0 };

	(void)number;
	if (!is_awaited(&semaphore))
		return;
	setitimer(ITIMER_REAL, &never, NULL);
	usleep(1000); /* waits inside of a wait */
	sem_post(&semaphore);
}

static void waited_in_a_handler(void)
{
	const struct itimerval soon = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 };

	signal(SIGALRM, post);
	setitimer(ITIMER_REAL, &soon, NULL);
	while (sem_wait(&semaphore)) /* EINTR */
		;
	signal(SIGALRM, SIG_DFL);
	puts("waited in a handler");
}

/* Until another thread waits for it (glibc's word is 2 then), and some time more. */
static void *hold(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	sem_post(&semaphore);
	while (__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) != 2)
		unseen_sleep(1);
	unseen_sleep(20);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void lock_mutex(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock_mutex(void)
{
	pthread_mutex_unlock(&mutex);
}

/* The fork's own handlers wait for the lock; the child has it free, and waits. */
static void forked(void)
{
	pthread_t thread;
	int status = -1;
	pid_t child;

	pthread_atfork(lock_mutex, unlock_mutex, unlock_mutex);
	pthread_create(&thread, NULL, hold, NULL);
	sem_wait(&semaphore);
	child = fork();
	if (!child) {
		pthread_create(&thread, NULL, hold, NULL);
		sem_wait(&semaphore);
		pthread_mutex_lock(&mutex);
		_exit(pthread_join(thread, NULL));
	}
	pthread_join(thread, NULL);
	waitpid(child, &status, 0);
	printf("forked %d\n", status);
}

#ifdef __x86_64__
/* A program linked before glibc 2.3.2: such a condition holds a pointer to another one. */
int old_init(pthread_cond_t *, const pthread_condattr_t *);
int old_wait(pthread_cond_t *, pthread_mutex_t *);
int old_signal(pthread_cond_t *);
__asm__(".symver old_init, pthread_cond_init@GLIBC_2.2.5");
__asm__(".symver old_wait, pthread_cond_wait@GLIBC_2.2.5");
__asm__(".symver old_signal, pthread_cond_signal@GLIBC_2.2.5");

static pthread_cond_t old;
static int called;

static void *call_old(void *unused)
{
	(void)unused;
	unseen_sleep(20);
	pthread_mutex_lock(&mutex);
	called = 1;
	old_signal(&old);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void waited_of_old(void)
{
	pthread_t thread;

	old_init(&old, NULL);
	pthread_create(&thread, NULL, call_old, NULL);
	pthread_mutex_lock(&mutex);
	while (!called)
		old_wait(&old, &mutex);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	puts("waited of old");
}
#else
static void waited_of_old(void)
{
}
#endif

int main(void)
{
	setbuf(stdout, NULL);
	sem_init(&semaphore, 0, 0);
	cancelled();
	cancelled_before();
	left_by_a_jump();
	waited_in_a_handler();
	waited_of_old();
	forked();
	return 0;
}
