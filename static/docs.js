"use strict";
// Draws the API's own description into the page.
const target = document.getElementById("swagger-ui");
SwaggerUIBundle({
  url: target.dataset.openapi,
  domNode: target,
  deepLinking: true,
  displayOperationId: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
