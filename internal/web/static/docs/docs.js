// The API's documentation: Swagger UI over this server's own document. It asks nobody else: no validator, no CDN.

const ui = SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#api",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null,
  queryConfigEnabled: false, // an address must not be able to show somebody else's document here
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  persistAuthorization: false, // the token stays in memory, as in the storefront
  responseInterceptor(response) {
    const path = new URL(response.url).pathname;
    if (response.ok && (path === "/api/v1/auth/login" || path === "/api/v1/auth/refresh")) {
      ui.preauthorizeApiKey("bearerAuth", response.body?.access_token ?? JSON.parse(response.text).access_token);
    }
    return response;
  },
});
