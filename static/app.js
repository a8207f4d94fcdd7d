"use strict";
// Draws charts and submits the form. Knows no formula.
