//! The time since 1970, and days and seconds as dates of the proleptic Gregorian calendar.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns milliseconds since 1970.
pub fn now_ms() -> i64 {
    to_ms(SystemTime::now())
}

/// Converts a time to milliseconds since 1970.
pub fn to_ms(time: SystemTime) -> i64 {
    let elapsed = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Converts milliseconds since 1970 to a time.
pub fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Formats seconds since 1970 as a date and time of day in UTC (RFC 3339).
pub fn of_seconds(seconds: i64) -> String {
    let (year, month, day) = of_days(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Formats a time as a date and time of day in UTC (RFC 3339), in whole seconds.
pub fn of_time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    of_seconds(i64::try_from(since.as_secs()).unwrap_or(0))
}

/// Converts days since 1970-01-01 to year, month and day.
pub fn of_days(days: i64) -> (i64, i64, i64) {
    // With years that begin in March, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
