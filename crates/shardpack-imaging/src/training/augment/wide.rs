//! Compiles the loops over pixels twice: for AVX2, and for every CPU of the target; each call takes the better one.
//!
//! Holds at all times: both give the same pixels. The loops are integer arithmetic, or float arithmetic whose order is
//! fixed; the compiler neither reorders floats nor fuses multiplications with additions.

/// Whether this CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn has_avx2() -> bool {
    #[cfg(test)]
    if IS_NARROW.get() {
        return false;
    }
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(test)]
thread_local! {
    /// Whether tests of this thread run without AVX2.
    pub(super) static IS_NARROW: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Defines a function that runs its body with AVX2 where the CPU has it.
macro_rules! wide {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(unsafe_code, reason = "a function that needs AVX2 is called if the CPU has it")]
        $visibility fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn narrow($($argument: $kind),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($argument: $kind),*) $(-> $result)? {
                    narrow($($argument),*)
                }
                if $crate::training::augment::wide::has_avx2() {
                    // SAFETY: this CPU has AVX2, and the function needs nothing else.
                    return unsafe { wide($($argument),*) };
                }
            }
            narrow($($argument),*)
        }
    };
}
pub(super) use wide;
