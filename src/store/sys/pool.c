/* store/sys/pool.c - thread pool; see pool.h. */
#include "store/sys/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

struct member {
	struct pfw_pool *pool;
	pthread_t thread;
	unsigned worker;
};

struct pfw_pool {
	pthread_mutex_t lock;
	pthread_cond_t queued; /* a task was queued, or the pool closes */
	pthread_cond_t done;   /* a task is done */
	struct pfw_task *first, *last;
	bool closing;
	unsigned jobs;
	struct member member[];
};

/* Dequeue the first task.  Lock: held, and the queue is not empty. */
static struct pfw_task *take(struct pfw_pool *pool)
{
	struct pfw_task *task = pool->first;

	pool->first = task->next;
	task->state = PFW_TASK_RUNNING;
	return task;
}

/* Run a task.  Lock: held before and after, not meanwhile. */
static void run(struct pfw_pool *pool, struct pfw_task *task, unsigned worker)
{
	pthread_mutex_unlock(&pool->lock);
	task->run(task, worker);
	pthread_mutex_lock(&pool->lock);
	task->state = PFW_TASK_DONE;
	pthread_cond_broadcast(&pool->done);
}

static void *work(void *arg)
{
	struct member *member = arg;
	struct pfw_pool *pool = member->pool;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->first && !pool->closing)
			pthread_cond_wait(&pool->queued, &pool->lock);
		if (!pool->first)
			break;
		run(pool, take(pool), member->worker);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int pfw_pool_thread(pthread_t *thread, void *(*run)(void *user), void *user)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, user);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

int pfw_pool_open(struct pfw_pool **out, unsigned jobs)
{
	struct pfw_pool *pool = calloc(1, sizeof(*pool) + jobs * sizeof(pool->member[0]));

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->queued, NULL);
	pthread_cond_init(&pool->done, NULL);
	for (pool->jobs = 1; pool->jobs < jobs; pool->jobs++) {
		struct member *member = &pool->member[pool->jobs];

		member->pool = pool;
		member->worker = pool->jobs;
		if (pfw_pool_thread(&member->thread, work, member))
			break;
	}
	*out = pool;
	return 0;
}

unsigned pfw_pool_jobs(const struct pfw_pool *pool)
{
	return pool->jobs;
}

void pfw_pool_start(struct pfw_pool *pool, struct pfw_task *task)
{
	pthread_mutex_lock(&pool->lock);
	task->next = NULL;
	task->state = PFW_TASK_QUEUED;
	if (pool->first)
		pool->last->next = task;
	else
		pool->first = task;
	pool->last = task;
	pthread_cond_signal(&pool->queued);
	pthread_mutex_unlock(&pool->lock);
}

void pfw_pool_wait(struct pfw_pool *pool, struct pfw_task *task)
{
	pthread_mutex_lock(&pool->lock);
	while (task->state != PFW_TASK_DONE) {
		if (pool->first)
			run(pool, take(pool), 0);
		else
			pthread_cond_wait(&pool->done, &pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
}

void pfw_pool_close(struct pfw_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->closing = true;
	pthread_cond_broadcast(&pool->queued);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 1; i < pool->jobs; i++)
		pthread_join(pool->member[i].thread, NULL);
	pthread_cond_destroy(&pool->done);
	pthread_cond_destroy(&pool->queued);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* ---- the same work in several threads ---- */

struct each {
	void (*run)(void *user, unsigned worker);
	void *user;
	unsigned worker;
	pthread_t thread;
};

static void *run_each(void *argument)
{
	const struct each *each = argument;

	each->run(each->user, each->worker);
	return NULL;
}

void pfw_pool_each(unsigned jobs, void (*run)(void *user, unsigned worker), void *user)
{
	struct each *each = calloc(jobs, sizeof(*each));
	unsigned count = 1;

	for (; each && count < jobs; count++) {
		each[count] = (struct each){ .run = run, .user = user, .worker = count };
		if (pfw_pool_thread(&each[count].thread, run_each, &each[count]))
			break;
	}
	run(user, 0);
	while (--count)
		pthread_join(each[count].thread, NULL);
	free(each);
}

struct share {
	size_t count;
	void (*run)(void *user, size_t number);
	void *user;
	_Atomic size_t next;
};

static void run_share(void *user, unsigned worker)
{
	struct share *share = user;
	size_t number;

	(void)worker;
	while ((number = atomic_fetch_add(&share->next, 1)) < share->count)
		share->run(share->user, number);
}

void pfw_pool_share(unsigned jobs, size_t count, void (*run)(void *user, size_t number), void *user)
{
	struct share share = { .count = count, .run = run, .user = user };

	pfw_pool_each(jobs < count ? jobs : (unsigned)count, run_share, &share);
}
