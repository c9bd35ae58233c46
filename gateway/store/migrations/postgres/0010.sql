-- Calls of integrations by day become usage in steps of a day (86400), which has no tools or callers.
INSERT INTO call_usage (step, at, kind, organisation, server, name, issuer, subject, expires, calls, failed,
    b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11,
    b12, b13, b14, b15, b16, b17, b18, b19, b20, b21, b22, b23,
    b24, b25, b26, b27, b28, b29, b30, b31, b32, b33, b34, b35)
    SELECT 86400, day * 86400, 'call', organisation, organisation || '/' || slug, '', '', '',
        (day + 90) * 86400, calls, failed,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    FROM integration_calls JOIN integrations ON integrations.id = integration_calls.integration;
DROP TABLE integration_calls;
