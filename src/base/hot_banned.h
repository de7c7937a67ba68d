/* hot_banned.h - include last in *_hot.[ch]: code that may run in any thread, in a signal
 * handler or inside malloc must not allocate, lock, print or leave. Using a name below there is
 * an error of the compiler that says so. Libc's own headers must come before, since they declare
 * these names. */
#ifndef SONDE_BASE_HOT_BANNED_H
#define SONDE_BASE_HOT_BANNED_H

#define SONDE__BANNED(name) sonde__banned_in_hot_code_##name

/* memory */
#undef malloc
#define malloc(...) SONDE__BANNED(malloc)
#undef calloc
#define calloc(...) SONDE__BANNED(calloc)
#undef realloc
#define realloc(...) SONDE__BANNED(realloc)
#undef reallocarray
#define reallocarray(...) SONDE__BANNED(reallocarray)
#undef free
#define free(...) SONDE__BANNED(free)
#undef aligned_alloc
#define aligned_alloc(...) SONDE__BANNED(aligned_alloc)
#undef posix_memalign
#define posix_memalign(...) SONDE__BANNED(posix_memalign)
#undef strdup
#define strdup(...) SONDE__BANNED(strdup)
#undef strndup
#define strndup(...) SONDE__BANNED(strndup)
#undef alloca
#define alloca(...) SONDE__BANNED(alloca)
#undef mmap
#define mmap(...) SONDE__BANNED(mmap)
#undef munmap
#define munmap(...) SONDE__BANNED(munmap)
#undef sonde__alloc
#define sonde__alloc(...) SONDE__BANNED(sonde__alloc)
#undef sonde__calloc
#define sonde__calloc(...) SONDE__BANNED(sonde__calloc)
#undef sonde__realloc
#define sonde__realloc(...) SONDE__BANNED(sonde__realloc)
#undef sonde__free
#define sonde__free(...) SONDE__BANNED(sonde__free)

/* stdio and what formats through it: locks, allocates, reads the locale */
#undef printf
#define printf(...) SONDE__BANNED(printf)
#undef fprintf
#define fprintf(...) SONDE__BANNED(fprintf)
#undef dprintf
#define dprintf(...) SONDE__BANNED(dprintf)
#undef sprintf
#define sprintf(...) SONDE__BANNED(sprintf)
#undef snprintf
#define snprintf(...) SONDE__BANNED(snprintf)
#undef asprintf
#define asprintf(...) SONDE__BANNED(asprintf)
#undef vprintf
#define vprintf(...) SONDE__BANNED(vprintf)
#undef vfprintf
#define vfprintf(...) SONDE__BANNED(vfprintf)
#undef vsprintf
#define vsprintf(...) SONDE__BANNED(vsprintf)
#undef vsnprintf
#define vsnprintf(...) SONDE__BANNED(vsnprintf)
#undef vasprintf
#define vasprintf(...) SONDE__BANNED(vasprintf)
#undef puts
#define puts(...) SONDE__BANNED(puts)
#undef fputs
#define fputs(...) SONDE__BANNED(fputs)
#undef perror
#define perror(...) SONDE__BANNED(perror)
#undef fopen
#define fopen(...) SONDE__BANNED(fopen)
#undef fclose
#define fclose(...) SONDE__BANNED(fclose)
#undef fflush
#define fflush(...) SONDE__BANNED(fflush)
#undef fread
#define fread(...) SONDE__BANNED(fread)
#undef fwrite
#define fwrite(...) SONDE__BANNED(fwrite)
#undef syslog
#define syslog(...) SONDE__BANNED(syslog)

/* locks and waiting */
#undef pthread_mutex_lock
#define pthread_mutex_lock(...) SONDE__BANNED(pthread_mutex_lock)
#undef pthread_mutex_trylock
#define pthread_mutex_trylock(...) SONDE__BANNED(pthread_mutex_trylock)
#undef pthread_rwlock_rdlock
#define pthread_rwlock_rdlock(...) SONDE__BANNED(pthread_rwlock_rdlock)
#undef pthread_rwlock_wrlock
#define pthread_rwlock_wrlock(...) SONDE__BANNED(pthread_rwlock_wrlock)
#undef pthread_cond_wait
#define pthread_cond_wait(...) SONDE__BANNED(pthread_cond_wait)
#undef pthread_once
#define pthread_once(...) SONDE__BANNED(pthread_once)
#undef sem_wait
#define sem_wait(...) SONDE__BANNED(sem_wait)
#undef sleep
#define sleep(...) SONDE__BANNED(sleep)
#undef usleep
#define usleep(...) SONDE__BANNED(usleep)
#undef nanosleep
#define nanosleep(...) SONDE__BANNED(nanosleep)

/* files and system calls */
#undef open
#define open(...) SONDE__BANNED(open)
#undef close
#define close(...) SONDE__BANNED(close)
#undef read
#define read(...) SONDE__BANNED(read)
#undef write
#define write(...) SONDE__BANNED(write)
#undef syscall
#define syscall(...) SONDE__BANNED(syscall)
#undef getenv
#define getenv(...) SONDE__BANNED(getenv)

/* leaving, and the loader's lock */
#undef exit
#define exit(...) SONDE__BANNED(exit)
#undef _exit
#define _exit(...) SONDE__BANNED(_exit)
#undef abort
#define abort(...) SONDE__BANNED(abort)
#undef longjmp
#define longjmp(...) SONDE__BANNED(longjmp)
#undef dlopen
#define dlopen(...) SONDE__BANNED(dlopen)
#undef dlsym
#define dlsym(...) SONDE__BANNED(dlsym)
#undef dl_iterate_phdr
#define dl_iterate_phdr(...) SONDE__BANNED(dl_iterate_phdr)
#undef backtrace
#define backtrace(...) SONDE__BANNED(backtrace)

#endif
